import { Effect } from "effect"
import { comments, createdBy, orgId } from "./comments.ts"
import { statements } from "./statements.ts"

/**
 * Deletion and retention: deletions that a worker performs in small transactions, tombstones of erased examples, traces
 * whose content waiting spans must lose, and the retention settings of organizations.
 *
 * Retention keeps the counts of feedback, so the trigger that subtracts deleted feedback has a condition. Nothing is
 * rewritten and no existing table is scanned: the locks are held for milliseconds, however large the tables are.
 */
export default Effect.andThen(
  statements(
    `CREATE TABLE deletions (
      org_id text COLLATE "C" NOT NULL,
      deletion_id text COLLATE "C" NOT NULL,
      kind text NOT NULL CHECK (kind IN ('task', 'dataset', 'erasure')),
      target_id text COLLATE "C",
      task_id text COLLATE "C",
      version integer,
      metadata_key text,
      metadata_digest bytea,
      status text NOT NULL CHECK (status IN ('running', 'completed')),
      phase text NOT NULL,
      cursor text COLLATE "C",
      due_at timestamptz,
      runs bigint NOT NULL DEFAULT 0,
      feedback bigint NOT NULL DEFAULT 0,
      examples bigint NOT NULL DEFAULT 0,
      sessions bigint NOT NULL DEFAULT 0,
      created_at timestamptz NOT NULL,
      created_by_id text COLLATE "C" NOT NULL,
      created_by_name text NOT NULL,
      finished_at timestamptz,
      PRIMARY KEY (org_id, deletion_id)
    ) WITH (fillfactor = 50)`,
    `CREATE INDEX deletions_due ON deletions (due_at, deletion_id) WHERE due_at IS NOT NULL`,
    `CREATE INDEX deletions_running ON deletions (org_id) WHERE status = 'running'`,
    `CREATE UNIQUE INDEX deletions_target ON deletions (org_id, target_id) WHERE target_id IS NOT NULL`,
    `CREATE TABLE erased_examples (
      org_id text COLLATE "C" NOT NULL,
      task_id text COLLATE "C" NOT NULL,
      example_id text COLLATE "C" NOT NULL,
      first_version integer NOT NULL,
      until_version integer,
      content_hash bytea NOT NULL,
      erased_at timestamptz NOT NULL,
      PRIMARY KEY (org_id, task_id, example_id)
    )`,
    `CREATE INDEX erased_examples_current ON erased_examples (org_id, task_id, example_id) WHERE until_version IS NULL`,
    `ALTER TABLE datasets ADD COLUMN examples_erased integer NOT NULL DEFAULT 0`,
    `CREATE TABLE erased_traces (
      org_id text COLLATE "C" NOT NULL,
      trace_id text COLLATE "C" NOT NULL,
      erased_at timestamptz NOT NULL,
      due_at timestamptz NOT NULL,
      PRIMARY KEY (org_id, trace_id)
    )`,
    `CREATE INDEX erased_traces_due ON erased_traces (due_at)`,
    `CREATE TABLE example_subjects (
      org_id text COLLATE "C" NOT NULL,
      digest bytea NOT NULL,
      task_id text COLLATE "C" NOT NULL,
      example_id text COLLATE "C" NOT NULL,
      PRIMARY KEY (org_id, digest, task_id, example_id)
    )`,
    `CREATE INDEX example_subjects_example ON example_subjects (org_id, task_id, example_id)`,
    `CREATE TABLE retention_settings (
      org_id text COLLATE "C" PRIMARY KEY,
      revision integer NOT NULL,
      run_days integer CHECK (run_days > 0),
      feedback_days integer CHECK (feedback_days > 0),
      session_days integer CHECK (session_days > 0)
    )`,
    `CREATE OR REPLACE TRIGGER feedback_removed AFTER DELETE ON feedback
      REFERENCING OLD TABLE AS removed FOR EACH STATEMENT
      WHEN (current_setting('countersign.keeps_feedback_counts', true) IS DISTINCT FROM 'on')
      EXECUTE FUNCTION feedback_removed()`
  ),
  comments({
    deletions: [
      "Deletions of tasks and dataset versions, and erasures of data subjects. A background worker performs them in small transactions, each with its progress.",
      {
        ...orgId,
        ...createdBy,
        deletion_id: "Id, del_….",
        kind: "task, dataset (one version) or erasure.",
        target_id: "Task or dataset version that is deleted; null: an erasure.",
        task_id: "Task of the dataset version; null: another kind.",
        version: "Number of the dataset version; null: another kind.",
        metadata_key: "Member of the metadata that names the data subject; null: no erasure.",
        metadata_digest: "SHA-256 of the member: its name, =, and its value as JSON; null: no erasure.",
        status: "running or completed.",
        phase: "What the next transaction deletes.",
        cursor: "Where it continues in this phase; null: at the beginning.",
        due_at:
          "When the next transaction is due; null: never. A completed deletion is repeated once, for what requests in progress still wrote.",
        runs: "Runs deleted so far.",
        feedback: "Feedback records deleted so far.",
        examples: "Examples deleted or erased so far.",
        sessions: "Agent sessions deleted so far.",
        created_at: "When it was requested.",
        finished_at: "When everything was deleted; null: not yet."
      }
    ],
    erased_examples: [
      "Tombstones of erased examples, by which the content digests of dataset versions can still be verified. A row belongs to the versions from first_version up to, but not including, until_version.",
      {
        ...orgId,
        task_id: "Task of the dataset.",
        example_id: "Id that the example had.",
        first_version: "First version with the example.",
        until_version: "First version without it; null: still in the newest version.",
        content_hash: "What the example adds to the content digest: SHAKE128 of its content, 2,048 bytes.",
        erased_at: "When it was erased."
      }
    ],
    datasets: [
      "Versions of the datasets of tasks.",
      {
        example_count: "Examples in the version, without erased ones.",
        examples_erased: "Examples of the version that were erased."
      }
    ],
    erased_traces: [
      "Traces of deleted runs and sessions, whose spans are removed from the batches that wait for delivery. Then the row is removed.",
      {
        ...orgId,
        trace_id: "W3C trace id.",
        erased_at: "When the run or session was deleted.",
        due_at:
          "When the batches are searched: at once, and again once everything that replicas had buffered is stored."
      }
    ],
    example_subjects: [
      "Members of the metadata of runs that retention has deleted, for the examples that corrections of them became: an erasure finds these examples by it.",
      {
        ...orgId,
        digest: "SHA-256 of the member: its name, =, and its value as JSON.",
        task_id: "Task of the dataset.",
        example_id: "Example."
      }
    ],
    retention_settings: [
      "How long organizations retain runs, feedback and agent sessions.",
      {
        ...orgId,
        revision: "Raised with each change, for optimistic concurrency.",
        run_days: "Days that runs are retained; null: until they are deleted.",
        feedback_days: "Days that feedback is retained; null: as long as its run.",
        session_days: "Days that agent sessions are retained; null: until they are deleted."
      }
    ]
  })
)
