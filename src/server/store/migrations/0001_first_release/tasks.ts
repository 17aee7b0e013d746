/** Tasks, releases, runs, datasets and comparisons. */
export const tasks = `
-- Tasks: instructions, schemas and a provider, answered by the live release.
CREATE TABLE tasks (
  org_id text COLLATE "C" NOT NULL, -- Organization that owns the row.
  task_id text COLLATE "C" NOT NULL, -- Id, tsk_….
  name text NOT NULL, -- Name for people.
  instructions text NOT NULL, -- Working copy of the instructions; runs use those of the live release.
  input_schema json NOT NULL, -- JSON Schema of inputs.
  answer_schema json NOT NULL, -- JSON Schema of answers.
  input_schema_digest text COLLATE "C" NOT NULL, -- Digest of the input schema, the cache key of its compiled form.
  answer_schema_digest text COLLATE "C" NOT NULL, -- Digest of the answer schema, the cache key of its compiled form.
  provider json NOT NULL, -- Working copy of the provider settings, without the API key.
  revision integer NOT NULL DEFAULT 1, -- Raised with each change of instructions or provider. A promotion updates them only if it is unchanged since the comparison.
  live_release_id text COLLATE "C" NOT NULL, -- Release that answers runs.
  dataset_id text COLLATE "C", -- Newest dataset version; null: none yet.
  dataset_version integer NOT NULL DEFAULT 0, -- Number of the newest dataset version; 0: none yet.
  first_run_at timestamptz, -- When the first run locked the schemas; null: no run yet, or a dataset version locked them before.
  created_at timestamptz NOT NULL, -- When the task was created.
  created_by_id text COLLATE "C" NOT NULL, -- API key that created the row.
  created_by_name text NOT NULL, -- Name of that key at the time.
  self_review boolean NOT NULL DEFAULT true, -- Whether the key that submitted a correction, or a key that it created, may stage it.
  review_share double precision NOT NULL DEFAULT 0, -- Share of the runs with an answer that is sampled for review.
  canary_release_id text COLLATE "C", -- Release that answers a share of the runs; null: none.
  canary_share double precision, -- Share of the runs that the canary answers, 0 to 1; null: no canary.
  canary_started_at timestamptz, -- When the canary was started; null: no canary.
  PRIMARY KEY (org_id, task_id),
  CONSTRAINT tasks_canary_check CHECK (num_nulls(canary_release_id, canary_share, canary_started_at) = ANY (ARRAY[0, 3])),
  CHECK ((review_share >= 0) AND (review_share <= 1))
) WITH (fillfactor=80);

-- Releases of a task: the instructions, provider and dataset version that answer runs. Immutable, except that the first release gets the first dataset version.
CREATE TABLE releases (
  org_id text COLLATE "C" NOT NULL, -- Organization that owns the row.
  release_id text COLLATE "C" NOT NULL, -- Id, rel_….
  task_id text COLLATE "C" NOT NULL, -- Task of the release.
  number integer NOT NULL, -- Number of the release in its task, from 1.
  instructions text NOT NULL, -- Instructions of the release.
  provider json NOT NULL, -- Provider settings of the release.
  dataset_id text COLLATE "C", -- Dataset version that it uses; null: none.
  comparison_id text COLLATE "C", -- Comparison whose candidate it is; null: the first release, or a restored one.
  created_at timestamptz NOT NULL, -- When it was released.
  created_by_id text COLLATE "C" NOT NULL, -- API key that created the row.
  created_by_name text NOT NULL, -- Name of that key at the time.
  restored_release_id text COLLATE "C", -- Earlier release that it restores; null: it restores none.
  previous_release_id text COLLATE "C", -- Release that was live when it was created; null: the first release.
  PRIMARY KEY (org_id, release_id)
);
CREATE INDEX releases_task ON releases (org_id, task_id, release_id DESC);

-- API keys and headers of model providers, one row per task and base URL.
CREATE TABLE provider_keys (
  org_id text COLLATE "C" NOT NULL, -- Organization that owns the row.
  task_id text COLLATE "C" NOT NULL, -- Task that uses them.
  base_url text COLLATE "C" NOT NULL, -- Base URL that they are sent to, and to no other.
  api_key bytea, -- Sealed key; null if there is none.
  updated_at timestamptz NOT NULL, -- When they were last set.
  headers bytea, -- Sealed extra headers, a JSON object of texts; null if there are none.
  PRIMARY KEY (org_id, task_id, base_url)
);
CREATE INDEX provider_keys_updated ON provider_keys (org_id, updated_at DESC);

-- Log of runs: one input and its answer or failure.
CREATE TABLE runs (
  org_id text COLLATE "C" NOT NULL, -- Organization that owns the row.
  trace_id text COLLATE "C" NOT NULL, -- W3C trace id of the run, its identifier in the API.
  run_id text COLLATE "C" NOT NULL, -- Id of the run.
  task_id text COLLATE "C" NOT NULL, -- Task that was run.
  release_id text COLLATE "C" NOT NULL, -- Release that answered, or that was live when the run was logged.
  dataset_id text COLLATE "C", -- Dataset version that the release used; null: none.
  session_id text COLLATE "C", -- Session that the run belongs to; null: none.
  source text NOT NULL, -- provider: the service called the model; logged: the caller did.
  status text NOT NULL, -- succeeded or failed.
  input json NOT NULL, -- Input, as sent by the caller.
  answer json, -- Answer; null: the run failed.
  failure text, -- Why the run failed; null: it succeeded.
  metadata json NOT NULL, -- JSON object from the caller.
  provider text, -- Kind of provider; of a logged answer the one that the client reported; null: not reported.
  model text, -- Model that answered; of a logged answer the one that the client reported; null: not reported.
  input_tokens integer, -- Tokens sent to the model; null: the client logged the answer without.
  output_tokens integer, -- Tokens generated by the model; null: the client logged the answer without.
  provider_calls integer NOT NULL, -- Calls to the provider, retries included.
  duration_ms double precision, -- How long the answer took, in milliseconds; null: the client logged the answer without.
  caller_traceparent text, -- The caller's traceparent header; null: none, or not valid.
  created_at timestamptz NOT NULL, -- When the run started.
  created_by_id text COLLATE "C" NOT NULL, -- API key that created the row.
  created_by_name text NOT NULL, -- Name of that key at the time.
  examples json NOT NULL DEFAULT '[]', -- Examples that the answer was made from, nearest first: their ids and scores.
  bytes integer, -- Size of input, answer and metadata as text, in bytes.
  started_at timestamptz, -- When the client's call to its model started; null: not logged, or not reported.
  end_user_feedback integer NOT NULL DEFAULT 0, -- Feedback that was given with feedback tokens of the run.
  answer_repaired boolean NOT NULL DEFAULT false, -- Whether the answer was read from damaged JSON of the model, or from a text around it.
  PRIMARY KEY (org_id, trace_id),
  CHECK (source IN ('provider', 'logged')),
  CHECK (status IN ('succeeded', 'failed'))
);
CREATE INDEX runs_failed ON runs (org_id, task_id, run_id DESC) WHERE status = 'failed';
CREATE INDEX runs_newest ON runs (org_id, run_id DESC);
CREATE INDEX runs_newest_failed ON runs (org_id, run_id DESC) WHERE status = 'failed';
CREATE INDEX runs_release ON runs (org_id, release_id, run_id DESC) WHERE source = 'provider';
CREATE INDEX runs_slow ON runs (org_id, run_id DESC) WHERE duration_ms >= (10000)::double precision;
CREATE UNIQUE INDEX runs_task ON runs (org_id, task_id, run_id DESC);

-- Members of the metadata of runs, for lists by them. Written by the statement that inserts or deletes the run.
CREATE TABLE run_metadata (
  org_id text COLLATE "C" NOT NULL, -- Organization that owns the row.
  task_id text COLLATE "C" NOT NULL, -- Task of the run.
  digest bytea NOT NULL, -- First 16 bytes of the SHA-256 of the member: name, =, and its value as JSON. Of a run, its first 16 members that are strings, numbers or booleans.
  run_id text COLLATE "C" NOT NULL, -- Run.
  PRIMARY KEY (org_id, task_id, digest, run_id)
);

-- Runs that were sampled for review and wait for it. The statement that adds feedback on the run, or deletes it, removes the row.
CREATE TABLE run_reviews (
  org_id text COLLATE "C" NOT NULL, -- Organization that owns the row.
  task_id text COLLATE "C" NOT NULL, -- Task of the run.
  run_id text COLLATE "C" NOT NULL, -- Run.
  PRIMARY KEY (org_id, task_id, run_id)
);
CREATE INDEX run_reviews_newest ON run_reviews (org_id, run_id DESC);

-- Runs per release and day. Written by the statements that log and delete runs; retention keeps counts. A count is the sum over all slots.
CREATE TABLE run_counts (
  org_id text COLLATE "C" NOT NULL, -- Organization that owns the row.
  day date NOT NULL, -- Day of the runs, in UTC.
  task_id text COLLATE "C" NOT NULL, -- Task of the runs.
  release_id text COLLATE "C" NOT NULL, -- Release that answered the runs; empty: clients supplied the answers.
  slot smallint NOT NULL, -- Part of the counter: concurrent statements add to different ones.
  runs bigint NOT NULL, -- Logged runs.
  PRIMARY KEY (org_id, day, task_id, release_id, slot)
) WITH (fillfactor=50);
CREATE INDEX run_counts_task ON run_counts (org_id, task_id);

-- Versions of the datasets of tasks.
CREATE TABLE datasets (
  org_id text COLLATE "C" NOT NULL, -- Organization that owns the row.
  dataset_id text COLLATE "C" NOT NULL, -- Id of the version, dst_….
  task_id text COLLATE "C" NOT NULL, -- Task of the dataset.
  version integer NOT NULL, -- Number of the version, from 1.
  base_dataset_id text COLLATE "C", -- Version that it was derived from; null: none.
  example_count integer NOT NULL, -- Examples in the version, without erased ones.
  content_state bytea NOT NULL, -- State of the incremental content digest, which the next version continues.
  content_digest text COLLATE "C" NOT NULL, -- Digest of all examples of the version.
  last_example_id text COLLATE "C" NOT NULL, -- Newest example of the version; examples with later ids belong to later versions.
  created_at timestamptz NOT NULL, -- When the version was created.
  created_by_id text COLLATE "C" NOT NULL, -- API key that created the row.
  created_by_name text NOT NULL, -- Name of that key at the time.
  last_ordinal integer NOT NULL, -- Highest number of an input of this or an earlier version; later inputs have higher ones.
  examples_erased integer NOT NULL DEFAULT 0, -- Examples of the version that were erased.
  PRIMARY KEY (org_id, dataset_id)
);
CREATE UNIQUE INDEX datasets_version ON datasets (org_id, task_id, version);

-- Examples of all versions of a task's dataset. A row belongs to the versions from first_version up to, but not including, until_version.
CREATE TABLE dataset_examples (
  org_id text COLLATE "C" NOT NULL, -- Organization that owns the row.
  task_id text COLLATE "C" NOT NULL, -- Task of the dataset.
  example_id text COLLATE "C" NOT NULL, -- Id of the example.
  first_version integer NOT NULL, -- First version with the example.
  until_version integer, -- First version without it; null: still in the newest version.
  input json NOT NULL, -- Input of the example.
  answer json NOT NULL, -- Answer of the example.
  bytes integer NOT NULL, -- Size of input and answer as text, in bytes; reads are chunked by it.
  input_digest bytea NOT NULL, -- Digest of the task id and the input, which finds an equal input.
  source_feedback_id text COLLATE "C", -- Feedback whose correction became the example; null: created or imported directly.
  origin text COLLATE "C" NOT NULL DEFAULT 'made', -- Where it comes from: correction, confirmed (a run's answer that a person confirmed), import or made (through the API).
  tokens bytea NOT NULL, -- Hashes of the words and sub-words of the input, 4 bytes each.
  ordinal integer NOT NULL, -- Number of the input in the task's dataset, from 1; an example that replaces another has the same.
  PRIMARY KEY (org_id, task_id, example_id) INCLUDE (first_version, until_version, bytes),
  CHECK (origin IN ('correction', 'confirmed', 'import', 'made'))
);
CREATE INDEX dataset_examples_first_version ON dataset_examples (org_id, task_id, first_version);
CREATE INDEX dataset_examples_input ON dataset_examples (org_id, input_digest);
CREATE INDEX dataset_examples_ordinal ON dataset_examples (org_id, task_id, ordinal, first_version);
CREATE INDEX dataset_examples_until_version ON dataset_examples (org_id, task_id, until_version) WHERE until_version IS NOT NULL;

-- Which inputs of a task's dataset contain a word or sub-word: posting lists, cut into chunks, for the search of the nearest examples.
CREATE TABLE dataset_postings (
  org_id text COLLATE "C" NOT NULL, -- Organization that owns the row.
  task_id text COLLATE "C" NOT NULL, -- Task of the dataset.
  word integer NOT NULL, -- Hash of the word; odd: of a sub-word.
  first_ordinal integer NOT NULL, -- Number of the chunk's first input.
  earlier integer NOT NULL, -- Postings of the word in earlier chunks.
  postings bytea NOT NULL, -- Postings in the order of the inputs, 4 bytes each: number of the input (27 bits), length class of its text (5 bits).
  PRIMARY KEY (org_id, task_id, word, first_ordinal)
);

-- Comparisons of a candidate with the live release over a dataset version. A background worker processes them under a lease.
CREATE TABLE comparisons (
  org_id text COLLATE "C" NOT NULL, -- Organization that owns the row.
  comparison_id text COLLATE "C" NOT NULL, -- Id, cmp_….
  task_id text COLLATE "C" NOT NULL, -- Task that is compared.
  task_revision integer NOT NULL, -- Revision of the task that the candidate was copied from.
  live_release_id text COLLATE "C" NOT NULL, -- Release that was live at the start.
  candidate_instructions text NOT NULL, -- Instructions of the candidate.
  candidate_provider json NOT NULL, -- Provider settings of the candidate.
  candidate_dataset_id text COLLATE "C", -- Dataset version that the candidate uses; null: none.
  dataset_id text COLLATE "C" NOT NULL, -- Dataset version whose examples are compared.
  status text NOT NULL, -- running or completed.
  example_count integer NOT NULL, -- Examples to compare.
  compared integer NOT NULL DEFAULT 0, -- Examples compared so far.
  last_example_id text COLLATE "C", -- Example that was compared last; null: none yet. The next replica resumes after it.
  tally json NOT NULL, -- Counts so far, as a JSON object: agreement, failures, usage and classes of both sides, and agreement by field.
  lease_epoch integer NOT NULL DEFAULT 0, -- Fencing token: raised by each claim.
  lease_until timestamptz, -- When the lease ends or ended; null: never claimed.
  created_at timestamptz NOT NULL, -- When the comparison was started.
  created_by_id text COLLATE "C" NOT NULL, -- API key that created the row.
  created_by_name text NOT NULL, -- Name of that key at the time.
  finished_at timestamptz, -- When it was completed; null: running.
  attempts integer NOT NULL DEFAULT 0, -- Claims since a batch was last recorded, without those that a shutdown or a database outage ended.
  failure text, -- Why it failed, such as its spent budget, or who cancelled it; null unless the status is failed or cancelled.
  hold_out json NOT NULL DEFAULT '{"kind":"none"}', -- Which examples are compared, and which ones the sides must not see.
  evaluators json NOT NULL DEFAULT '{}', -- How values of the answers are compared, by JSON pointer.
  judge json, -- Prompt and provider of the judge; null: none.
  budget json NOT NULL DEFAULT '{"max_calls":null,"max_tokens":null,"max_cost":null,"max_failures":null}', -- Limits of what it may spend; null: no limit.
  repeats integer NOT NULL DEFAULT 1, -- How often each side answers each example.
  spent_calls integer NOT NULL DEFAULT 0, -- Calls to models, in all attempts.
  spent_input_tokens double precision NOT NULL DEFAULT 0, -- Input tokens of these calls.
  spent_output_tokens double precision NOT NULL DEFAULT 0, -- Output tokens of these calls.
  spent_cost double precision, -- Cost of these calls by the prices of their providers; null: none has a price.
  PRIMARY KEY (org_id, comparison_id),
  CHECK (status IN ('running', 'completed', 'failed', 'cancelled'))
) WITH (fillfactor=70);
CREATE INDEX comparisons_at_work ON comparisons (org_id) WHERE status = 'running';
CREATE INDEX comparisons_running ON comparisons (lease_until NULLS FIRST) WHERE status = 'running';
CREATE INDEX comparisons_task ON comparisons (org_id, task_id, comparison_id DESC);

-- Results of a comparison, one row per example.
CREATE TABLE comparison_results (
  org_id text COLLATE "C" NOT NULL, -- Organization that owns the row.
  comparison_id text COLLATE "C" NOT NULL, -- Comparison of the result.
  example_id text COLLATE "C" NOT NULL, -- Example that was compared.
  candidate json NOT NULL, -- Outcome of the candidate: answer or failure, agreement with the example, and usage.
  live json NOT NULL, -- Outcome of the live release: answer or failure, agreement with the example, and usage.
  PRIMARY KEY (org_id, comparison_id, example_id)
);
CREATE INDEX comparison_results_example ON comparison_results (org_id, example_id);
CREATE INDEX comparison_results_verdict ON comparison_results (org_id, comparison_id, ((candidate ->> 'agrees')), ((live ->> 'agrees')), example_id);
`
