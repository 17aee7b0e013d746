import { statements } from "./statements.ts"

/**
 * Tasks with their releases, the log of their runs, the versions of their datasets, and comparisons.
 *
 * One table has the examples of all versions of a task's dataset: a row belongs to the versions from `first_version` up
 * to, but not including, `until_version`, so that a version costs only its changes. `tokens` are the hashed words of
 * the input. `telling` has the rare words, which find the nearest example; `dataset_words` counts the examples with
 * each word. `input_shape` and `answer_shape` are the digests of the schemas, the cache keys of their compiled forms.
 */
export default statements(
  `CREATE TABLE tasks (
    org_id text COLLATE "C" NOT NULL,
    task_id text COLLATE "C" NOT NULL,
    name text NOT NULL,
    instructions text NOT NULL,
    input_schema json NOT NULL,
    answer_schema json NOT NULL,
    input_shape text COLLATE "C" NOT NULL,
    answer_shape text COLLATE "C" NOT NULL,
    provider json NOT NULL,
    revision int NOT NULL DEFAULT 1,
    live_release_id text COLLATE "C" NOT NULL,
    dataset_id text COLLATE "C",
    dataset_version int NOT NULL DEFAULT 0,
    first_run_at timestamptz,
    created_at timestamptz NOT NULL,
    created_by_id text COLLATE "C" NOT NULL,
    created_by_name text NOT NULL,
    PRIMARY KEY (org_id, task_id)
  ) WITH (fillfactor = 80)`,
  `CREATE TABLE provider_keys (
    org_id text COLLATE "C" NOT NULL,
    task_id text COLLATE "C" NOT NULL,
    base_url text COLLATE "C" NOT NULL,
    api_key bytea NOT NULL,
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (org_id, task_id, base_url)
  )`,
  `CREATE TABLE releases (
    org_id text COLLATE "C" NOT NULL,
    release_id text COLLATE "C" NOT NULL,
    task_id text COLLATE "C" NOT NULL,
    instructions text NOT NULL,
    provider json NOT NULL,
    dataset_id text COLLATE "C",
    comparison_id text COLLATE "C",
    created_at timestamptz NOT NULL,
    created_by_id text COLLATE "C" NOT NULL,
    created_by_name text NOT NULL,
    PRIMARY KEY (org_id, release_id)
  )`,
  `CREATE INDEX releases_task ON releases (org_id, task_id, release_id DESC)`,
  `CREATE TABLE runs (
    org_id text COLLATE "C" NOT NULL,
    trace_id text COLLATE "C" NOT NULL,
    run_id text COLLATE "C" NOT NULL,
    task_id text COLLATE "C" NOT NULL,
    release_id text COLLATE "C" NOT NULL,
    dataset_id text COLLATE "C",
    session_id text COLLATE "C",
    source text NOT NULL CHECK (source IN ('provider', 'logged')),
    status text NOT NULL CHECK (status IN ('succeeded', 'failed')),
    input json NOT NULL,
    answer json,
    failure text,
    metadata json NOT NULL,
    provider text NOT NULL,
    model text NOT NULL,
    input_tokens int NOT NULL,
    output_tokens int NOT NULL,
    provider_calls int NOT NULL,
    duration_ms double precision NOT NULL,
    caller_traceparent text,
    created_at timestamptz NOT NULL,
    created_by_id text COLLATE "C" NOT NULL,
    created_by_name text NOT NULL,
    PRIMARY KEY (org_id, trace_id)
  )`,
  `CREATE TABLE datasets (
    org_id text COLLATE "C" NOT NULL,
    dataset_id text COLLATE "C" NOT NULL,
    task_id text COLLATE "C" NOT NULL,
    version int NOT NULL,
    base_dataset_id text COLLATE "C",
    example_count int NOT NULL,
    content_state bytea NOT NULL,
    content_digest text COLLATE "C" NOT NULL,
    last_example_id text COLLATE "C" NOT NULL,
    created_at timestamptz NOT NULL,
    created_by_id text COLLATE "C" NOT NULL,
    created_by_name text NOT NULL,
    PRIMARY KEY (org_id, dataset_id)
  )`,
  `CREATE UNIQUE INDEX datasets_version ON datasets (org_id, task_id, version)`,
  `CREATE INDEX datasets_task ON datasets (org_id, task_id, dataset_id DESC)`,
  `CREATE TABLE dataset_examples (
    org_id text COLLATE "C" NOT NULL,
    task_id text COLLATE "C" NOT NULL,
    example_id text COLLATE "C" NOT NULL,
    first_version int NOT NULL,
    until_version int,
    input json NOT NULL,
    answer json NOT NULL,
    bytes int NOT NULL,
    input_digest bytea NOT NULL,
    source_feedback_id text COLLATE "C",
    tokens int[] NOT NULL,
    telling bigint[] NOT NULL,
    PRIMARY KEY (org_id, task_id, example_id) INCLUDE (first_version, until_version, bytes)
  )`,
  `CREATE INDEX dataset_examples_input ON dataset_examples (org_id, input_digest)`,
  `CREATE INDEX dataset_examples_telling ON dataset_examples USING gin (telling)`,
  `CREATE TABLE dataset_words (
    org_id text COLLATE "C" NOT NULL,
    task_id text COLLATE "C" NOT NULL,
    counts bytea NOT NULL,
    PRIMARY KEY (org_id, task_id)
  )`,
  `CREATE TABLE comparisons (
    org_id text COLLATE "C" NOT NULL,
    comparison_id text COLLATE "C" NOT NULL,
    task_id text COLLATE "C" NOT NULL,
    task_revision int NOT NULL,
    live_release_id text COLLATE "C" NOT NULL,
    candidate_instructions text NOT NULL,
    candidate_provider json NOT NULL,
    candidate_dataset_id text COLLATE "C",
    dataset_id text COLLATE "C" NOT NULL,
    status text NOT NULL CHECK (status IN ('running', 'completed')),
    example_count int NOT NULL,
    compared int NOT NULL DEFAULT 0,
    last_example_id text COLLATE "C",
    tally json NOT NULL,
    lease_epoch int NOT NULL DEFAULT 0,
    lease_until timestamptz,
    created_at timestamptz NOT NULL,
    created_by_id text COLLATE "C" NOT NULL,
    created_by_name text NOT NULL,
    finished_at timestamptz,
    PRIMARY KEY (org_id, comparison_id)
  ) WITH (fillfactor = 70)`,
  `CREATE INDEX comparisons_task ON comparisons (org_id, task_id, comparison_id DESC)`,
  `CREATE INDEX comparisons_running ON comparisons (lease_until NULLS FIRST) WHERE status = 'running'`,
  `CREATE INDEX comparisons_at_work ON comparisons (org_id) WHERE status = 'running'`,
  `CREATE TABLE comparison_results (
    org_id text COLLATE "C" NOT NULL,
    comparison_id text COLLATE "C" NOT NULL,
    example_id text COLLATE "C" NOT NULL,
    candidate json NOT NULL,
    live json NOT NULL,
    PRIMARY KEY (org_id, comparison_id, example_id)
  )`
)
