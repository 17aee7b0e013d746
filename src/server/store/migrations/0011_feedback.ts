import { statements } from "./statements.ts"

/**
 * Feedback on runs. A correction never changes once it is written. `input_digest` names the run's input from the moment the correction
 * is staged, so that a promotion is planned without reading inputs; `bytes` is the correction's size, by which readings are cut.
 */
export default statements(
  `CREATE TABLE feedback (
    org_id text COLLATE "C" NOT NULL,
    feedback_id text COLLATE "C" NOT NULL,
    task_id text COLLATE "C" NOT NULL,
    trace_id text COLLATE "C" NOT NULL,
    score smallint NOT NULL CHECK (score IN (-1, 0, 1)),
    correction json,
    bytes int NOT NULL,
    status text COLLATE "C" NOT NULL
      CHECK (status IN ('recorded', 'pending', 'staged', 'rejected', 'promoted', 'superseded')),
    redaction_warning text,
    created_at timestamptz NOT NULL,
    created_by_id text COLLATE "C" NOT NULL,
    created_by_name text NOT NULL,
    reviewed_at timestamptz,
    reviewed_by_id text COLLATE "C",
    reviewed_by_name text,
    review_note text,
    input_digest text COLLATE "C",
    dataset_id text COLLATE "C",
    PRIMARY KEY (org_id, feedback_id)
  ) WITH (fillfactor = 80)`,
  `CREATE INDEX feedback_task ON feedback (org_id, task_id, status, feedback_id DESC)`,
  `CREATE INDEX feedback_status ON feedback (org_id, status, feedback_id DESC)`,
  `CREATE INDEX feedback_run ON feedback (org_id, trace_id, feedback_id DESC)`,
  // Whether a provider's key was renewed is asked with every correction.
  `CREATE INDEX provider_keys_updated ON provider_keys (org_id, updated_at DESC)`
)
