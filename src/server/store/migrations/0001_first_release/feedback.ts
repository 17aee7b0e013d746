/** Feedback, its counts, and what belongs to end users. */
export const feedback = `
-- Feedback on runs: a score and, optionally, a comment and a correction that reviewers stage and promote.
CREATE TABLE feedback (
  org_id text COLLATE "C" NOT NULL, -- Organization that owns the row.
  feedback_id text COLLATE "C" NOT NULL, -- Id, fbk_….
  task_id text COLLATE "C" NOT NULL, -- Task of the run.
  trace_id text COLLATE "C" NOT NULL, -- Run that the feedback is about.
  score smallint NOT NULL, -- -1, 0 or 1.
  correction json, -- Corrected answer, redacted; null: none. Never changes.
  bytes integer NOT NULL, -- Size of the correction and the comment, in bytes.
  status text COLLATE "C" NOT NULL, -- recorded (no correction), pending, staged, rejected, withdrawn, promoted or superseded.
  redaction_warning text, -- Names the fields from which redaction removed values; null: none.
  created_at timestamptz NOT NULL, -- When the feedback was given.
  created_by_id text COLLATE "C" NOT NULL, -- API key that created the row.
  created_by_name text NOT NULL, -- Name of that key at the time.
  reviewed_at timestamptz, -- When the correction was reviewed; null: not yet.
  reviewed_by_id text COLLATE "C", -- API key of the reviewer; null: not yet.
  reviewed_by_name text, -- Name of that key at the time; null: not yet.
  review_note text, -- Note of the reviewer to the submitter; null: none.
  input_digest text COLLATE "C", -- Digest of the task id and the run's input, as in dataset_examples, set when the correction is staged; null: not staged.
  dataset_id text COLLATE "C", -- Dataset version that the correction was promoted into; null: not promoted.
  input_bytes integer, -- Size of the run's input as text, in bytes, set when the correction is staged; null: not staged.
  run_id text COLLATE "C" NOT NULL, -- Run that the feedback is about, in the order of runs.
  release_id text COLLATE "C", -- Release that answered the run; null: the client supplied the answer.
  score_value double precision, -- Score between those of score, from -1 to 1; null: score alone was given.
  score_label text COLLATE "C", -- Category of the feedback; null: none.
  comment text, -- Remark on the answer, after redaction; null: none.
  source text COLLATE "C" NOT NULL DEFAULT 'api_key', -- api_key: a caller with an API key gave it; feedback_token: an end user did.
  end_user text COLLATE "C", -- Pseudonym of the end user who gave it; null: given without.
  author text COLLATE "C" NOT NULL, -- Whose opinion it is: the API key, with the end user if one is given; of a feedback token the end user, or the token.
  is_current boolean NOT NULL DEFAULT true, -- Whether it is its author's latest opinion about the run and was not withdrawn. Only then it is counted.
  withdrawn_at timestamptz, -- When its author withdrew it; null: not withdrawn.
  PRIMARY KEY (org_id, feedback_id),
  CHECK (score IN (-1, 0, 1)),
  CHECK ((score_value >= -1) AND (score_value <= 1)),
  CHECK (source IN ('api_key', 'feedback_token')),
  CHECK (status IN ('recorded', 'pending', 'staged', 'rejected', 'withdrawn', 'promoted', 'superseded')),
  CHECK ((withdrawn_at IS NULL) OR (NOT is_current))
) WITH (fillfactor=80);
CREATE INDEX feedback_commented ON feedback (org_id, status, score, feedback_id DESC) WHERE comment IS NOT NULL;
CREATE INDEX feedback_end_users ON feedback (org_id, end_user, feedback_id DESC) WHERE end_user IS NOT NULL;
CREATE INDEX feedback_labelled ON feedback (org_id, score_label, status, score, feedback_id DESC) WHERE score_label IS NOT NULL;
CREATE INDEX feedback_lists ON feedback (org_id, status, score, feedback_id DESC);
CREATE UNIQUE INDEX feedback_opinions ON feedback (org_id, trace_id, author) WHERE is_current;
CREATE INDEX feedback_run ON feedback (org_id, trace_id, feedback_id DESC);
CREATE INDEX feedback_runs ON feedback (org_id, task_id, score, run_id DESC) WHERE is_current;
CREATE INDEX feedback_scored_runs ON feedback (org_id, score, run_id DESC) WHERE is_current;
CREATE INDEX feedback_task_commented ON feedback (org_id, task_id, status, score, feedback_id DESC) WHERE comment IS NOT NULL;
CREATE INDEX feedback_task_labelled ON feedback (org_id, task_id, score_label, status, score, feedback_id DESC) WHERE score_label IS NOT NULL;
CREATE INDEX feedback_task_lists ON feedback (org_id, task_id, status, score, feedback_id DESC);

-- Labels of the feedback on the runs of a task: their number is limited.
CREATE TABLE feedback_labels (
  org_id text COLLATE "C" NOT NULL, -- Organization that owns the row.
  task_id text COLLATE "C" NOT NULL, -- Task of the runs.
  score_label text COLLATE "C" NOT NULL, -- Label.
  PRIMARY KEY (org_id, task_id, score_label)
);

-- Counts of current feedback per release and day of the feedback. Written by the statements that add, withdraw and delete feedback; retention keeps counts. A count is the sum over all slots.
CREATE TABLE feedback_counts (
  org_id text COLLATE "C" NOT NULL, -- Organization that owns the row.
  task_id text COLLATE "C" NOT NULL, -- Task of the runs.
  day date NOT NULL, -- Day of the feedback, in UTC.
  release_id text COLLATE "C" NOT NULL, -- Release that answered the runs; empty: the client supplied the answers.
  slot smallint NOT NULL, -- Part of the counter: concurrent statements add to different ones.
  positive bigint NOT NULL, -- Feedback with the score 1.
  neutral bigint NOT NULL, -- Feedback with the score 0.
  negative bigint NOT NULL, -- Feedback with the score -1.
  value_excess bigint NOT NULL DEFAULT 0, -- Sum of score_value less score, in millionths, over the feedback with a score_value.
  PRIMARY KEY (org_id, task_id, day, release_id, slot)
) WITH (fillfactor=50);
CREATE INDEX feedback_counts_days ON feedback_counts (org_id, day);

-- Counts of feedback with a label, written like feedback_counts.
CREATE TABLE feedback_label_counts (
  org_id text COLLATE "C" NOT NULL, -- Organization that owns the row.
  task_id text COLLATE "C" NOT NULL, -- Task of the runs.
  day date NOT NULL, -- Day of the feedback, in UTC.
  release_id text COLLATE "C" NOT NULL, -- Release that answered the runs; empty: the client supplied the answers.
  score_label text COLLATE "C" NOT NULL, -- Label.
  slot smallint NOT NULL, -- Part of the counter: concurrent statements add to different ones.
  count bigint NOT NULL, -- Feedback with the label.
  PRIMARY KEY (org_id, task_id, day, release_id, score_label, slot)
) WITH (fillfactor=50);

-- Settings of organizations for the feedback of end users.
CREATE TABLE feedback_settings (
  org_id text COLLATE "C" NOT NULL, -- Organization that owns the row.
  revision integer NOT NULL, -- Increases with every change.
  allowed_origins text[] COLLATE "C" NOT NULL, -- Web origins whose pages may send feedback with a feedback token.
  PRIMARY KEY (org_id)
);

-- Feedback tokens that were used. A row is removed after the token has expired.
CREATE TABLE feedback_token_uses (
  org_id text COLLATE "C" NOT NULL, -- Organization that owns the row.
  token_id text COLLATE "C" NOT NULL, -- Token.
  uses integer NOT NULL, -- Feedback that was given with it.
  last_digest text COLLATE "C" NOT NULL, -- SHA-256 of its newest feedback, in hex: the same one sent again is not stored again.
  expires_at timestamptz NOT NULL, -- When the token expires.
  PRIMARY KEY (org_id, token_id)
);
CREATE INDEX feedback_token_uses_expired ON feedback_token_uses (expires_at);

-- Secret keys of the pseudonyms of end users.
CREATE TABLE end_user_peppers (
  org_id text COLLATE "C" NOT NULL, -- Organization that owns the row.
  pepper bytea NOT NULL, -- Key, sealed: 32 random bytes in base64.
  PRIMARY KEY (org_id)
);

-- Tombstones of erased examples, by which the content digests of dataset versions can still be verified. A row belongs to the versions from first_version up to, but not including, until_version.
CREATE TABLE erased_examples (
  org_id text COLLATE "C" NOT NULL, -- Organization that owns the row.
  task_id text COLLATE "C" NOT NULL, -- Task of the dataset.
  example_id text COLLATE "C" NOT NULL, -- Id that the example had.
  first_version integer NOT NULL, -- First version with the example.
  until_version integer, -- First version without it; null: still in the newest version.
  content_hash bytea NOT NULL, -- What the example adds to the content digest: SHAKE128 of its content, 2,048 bytes.
  erased_at timestamptz NOT NULL, -- When it was erased.
  PRIMARY KEY (org_id, task_id, example_id)
);
CREATE INDEX erased_examples_current ON erased_examples (org_id, task_id, example_id) WHERE until_version IS NULL;

-- Traces of deleted runs and sessions, whose spans are removed from the batches that wait for delivery. Then the row is removed.
CREATE TABLE erased_traces (
  org_id text COLLATE "C" NOT NULL, -- Organization that owns the row.
  trace_id text COLLATE "C" NOT NULL, -- W3C trace id.
  erased_at timestamptz NOT NULL, -- When the run or session was deleted.
  due_at timestamptz NOT NULL, -- When the batches are searched: at once, and again once everything that replicas had buffered is stored.
  PRIMARY KEY (org_id, trace_id)
);
CREATE INDEX erased_traces_due ON erased_traces (due_at);

-- Members of the metadata of runs that retention has deleted, for the examples that corrections of them became: an erasure finds these examples by it.
CREATE TABLE example_subjects (
  org_id text COLLATE "C" NOT NULL, -- Organization that owns the row.
  digest bytea NOT NULL, -- SHA-256 of the member: its name, =, and its value as JSON.
  task_id text COLLATE "C" NOT NULL, -- Task of the dataset.
  example_id text COLLATE "C" NOT NULL, -- Example.
  PRIMARY KEY (org_id, digest, task_id, example_id)
);
CREATE INDEX example_subjects_example ON example_subjects (org_id, task_id, example_id);
`
