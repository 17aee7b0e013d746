import { statements } from "./statements.ts"

/**
 * Feedback on runs. A correction never changes. `input_digest`, set when the correction is staged, identifies the run's input, so that a
 * promotion is planned without reading inputs. `bytes` is the size of the correction, which limits pages and chunks.
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
  // Every correction queries when a provider key was last set.
  `CREATE INDEX provider_keys_updated ON provider_keys (org_id, updated_at DESC)`
)
