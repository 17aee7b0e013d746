import { Effect } from "effect"
import { comments, orgId } from "./comments.ts"
import { statements } from "./statements.ts"

/** Members of a run's metadata that it can be found by. */
const MAX_MEMBERS = 16

/**
 * The members of a run's metadata that it can be found by, as digests: an index entry has a limited size, and a value
 * may be longer.
 */
const members = (run: string) => `
  SELECT substr(sha256(convert_to(member.key || '=' || member.value::text, 'UTF8')), 1, 16) AS digest
  FROM json_each(${run}.metadata) WITH ORDINALITY AS member (key, value, number)
  WHERE json_typeof(member.value) IN ('string', 'number', 'boolean')
  ORDER BY number
  LIMIT ${MAX_MEMBERS}`

/** The counts of feedback rows, by the keys of `feedback_counts`, added to those of the backend's slot. */
const addCounts = (rows: string, sign: "" | "-") => `
  INSERT INTO feedback_counts AS c (org_id, task_id, day, release_id, slot, positive, neutral, negative)
  SELECT
    org_id, task_id, (created_at AT TIME ZONE 'UTC')::date, coalesce(release_id, ''), pg_backend_pid() % 16,
    ${sign}count(*) FILTER (WHERE score = 1), ${sign}count(*) FILTER (WHERE score = 0),
    ${sign}count(*) FILTER (WHERE score = -1)
  FROM ${rows}
  GROUP BY 1, 2, 3, 4
  -- All statements lock counters in the same order, or two of them could deadlock.
  ORDER BY 1, 2, 3, 4
  ON CONFLICT (org_id, task_id, day, release_id, slot) DO UPDATE
  SET
    positive = c.positive + excluded.positive,
    neutral = c.neutral + excluded.neutral,
    negative = c.negative + excluded.negative`

/**
 * Lists of runs: an index for each filter, and the metadata of runs as rows of their own. Runs that wait for review.
 * Counts of feedback per release and day.
 *
 * Triggers maintain the data derived from runs and feedback: rows that a replica of an older version writes are listed and
 * counted too, and deleted rows leave no entry. A counter is spread over slots, because all feedback on one
 * release would otherwise wait for the commit of the feedback before it.
 */
export default Effect.andThen(
  statements(
    `ALTER TABLE tasks ADD COLUMN review_share double precision NOT NULL DEFAULT 0
      CHECK (review_share BETWEEN 0 AND 1)`,
    `ALTER TABLE runs
      ADD COLUMN bytes integer,
      ADD COLUMN started_at timestamptz,
      ALTER COLUMN provider DROP NOT NULL,
      ALTER COLUMN model DROP NOT NULL,
      ALTER COLUMN input_tokens DROP NOT NULL,
      ALTER COLUMN output_tokens DROP NOT NULL,
      ALTER COLUMN duration_ms DROP NOT NULL`,
    `CREATE UNIQUE INDEX runs_task ON runs (org_id, task_id, run_id DESC)`,
    `CREATE INDEX runs_release ON runs (org_id, release_id, run_id DESC) WHERE source = 'provider'`,
    `CREATE INDEX runs_failed ON runs (org_id, task_id, run_id DESC) WHERE status = 'failed'`,
    `CREATE TABLE run_metadata (
      org_id text COLLATE "C" NOT NULL,
      task_id text COLLATE "C" NOT NULL,
      digest bytea NOT NULL,
      run_id text COLLATE "C" NOT NULL,
      PRIMARY KEY (org_id, task_id, digest, run_id)
    )`,
    `INSERT INTO run_metadata (org_id, task_id, digest, run_id)
    SELECT DISTINCT org_id, task_id, digest, run_id
    FROM runs
      CROSS JOIN LATERAL (${members("runs")}) AS member
    WHERE metadata::text <> '{}'`,
    `CREATE FUNCTION run_metadata_added() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN
        INSERT INTO run_metadata (org_id, task_id, digest, run_id)
        SELECT NEW.org_id, NEW.task_id, digest, NEW.run_id
        FROM (${members("NEW")}) AS member
        ON CONFLICT DO NOTHING;
        RETURN NULL;
      END
    $$`,
    `CREATE TRIGGER runs_metadata_added AFTER INSERT ON runs
      FOR EACH ROW WHEN (NEW.metadata::text <> '{}') EXECUTE FUNCTION run_metadata_added()`,
    `CREATE TABLE run_reviews (
      org_id text COLLATE "C" NOT NULL,
      task_id text COLLATE "C" NOT NULL,
      run_id text COLLATE "C" NOT NULL,
      PRIMARY KEY (org_id, task_id, run_id)
    )`,
    `CREATE FUNCTION run_removed() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN
        DELETE FROM run_metadata
        USING (${members("OLD")}) AS member
        WHERE run_metadata.org_id = OLD.org_id
          AND run_metadata.task_id = OLD.task_id
          AND run_metadata.digest = member.digest
          AND run_metadata.run_id = OLD.run_id;
        DELETE FROM run_reviews
        WHERE org_id = OLD.org_id
          AND task_id = OLD.task_id
          AND run_id = OLD.run_id;
        RETURN NULL;
      END
    $$`,
    `CREATE TRIGGER runs_removed AFTER DELETE ON runs
      FOR EACH ROW EXECUTE FUNCTION run_removed()`,
    `ALTER TABLE feedback
      ADD COLUMN run_id text COLLATE "C",
      ADD COLUMN release_id text COLLATE "C"`,
    `UPDATE feedback
    SET
      run_id = runs.run_id,
      release_id = CASE runs.source WHEN 'provider' THEN runs.release_id END
    FROM runs
    WHERE runs.org_id = feedback.org_id
      AND runs.trace_id = feedback.trace_id`,
    `CREATE INDEX feedback_runs ON feedback (org_id, task_id, score, run_id DESC)`,
    `CREATE FUNCTION feedback_run() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN
        SELECT runs.run_id, CASE runs.source WHEN 'provider' THEN runs.release_id END
        INTO NEW.run_id, NEW.release_id
        FROM runs
        WHERE runs.org_id = NEW.org_id
          AND runs.trace_id = NEW.trace_id;
        RETURN NEW;
      END
    $$`,
    // Replicas of an older version do not set the run.
    `CREATE TRIGGER feedback_run BEFORE INSERT ON feedback
      FOR EACH ROW WHEN (NEW.run_id IS NULL) EXECUTE FUNCTION feedback_run()`,
    `CREATE TABLE feedback_counts (
      org_id text COLLATE "C" NOT NULL,
      task_id text COLLATE "C" NOT NULL,
      day date NOT NULL,
      release_id text COLLATE "C" NOT NULL,
      slot smallint NOT NULL,
      positive bigint NOT NULL,
      neutral bigint NOT NULL,
      negative bigint NOT NULL,
      PRIMARY KEY (org_id, task_id, day, release_id, slot)
    ) WITH (fillfactor = 50)`,
    addCounts("feedback", ""),
    `CREATE FUNCTION feedback_added() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN
        ${addCounts("added", "")};
        DELETE FROM run_reviews
        USING added
        WHERE run_reviews.org_id = added.org_id
          AND run_reviews.task_id = added.task_id
          AND run_reviews.run_id = added.run_id;
        RETURN NULL;
      END
    $$`,
    `CREATE TRIGGER feedback_added AFTER INSERT ON feedback
      REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION feedback_added()`,
    `CREATE FUNCTION feedback_removed() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN
        ${addCounts("removed", "-")};
        RETURN NULL;
      END
    $$`,
    `CREATE TRIGGER feedback_removed AFTER DELETE ON feedback
      REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION feedback_removed()`
  ),
  comments({
    tasks: [
      "Tasks: instructions, schemas and a provider, answered by the live release.",
      { review_share: "Share of the runs with an answer that is sampled for review." }
    ],
    runs: [
      "Log of runs: one input and its answer or failure.",
      {
        bytes:
          "Size of input, answer and metadata as text, in bytes; null: logged before this column was added.",
        started_at: "When the client's call to its model started; null: not logged, or not reported.",
        provider:
          "Kind of provider; of a logged answer the one that the client reported; null: not reported. Older logged runs have that of the live release.",
        model:
          "Model that answered; of a logged answer the one that the client reported; null: not reported.",
        input_tokens: "Tokens sent to the model; null: the client logged the answer without.",
        output_tokens: "Tokens generated by the model; null: the client logged the answer without.",
        duration_ms: "How long the answer took, in milliseconds; null: the client logged the answer without."
      }
    ],
    run_metadata: [
      "Members of the metadata of runs, for lists by them. Kept by triggers on runs.",
      {
        ...orgId,
        task_id: "Task of the run.",
        digest:
          "First 16 bytes of the SHA-256 of the member: name, =, and its value as JSON. Of a run, its first 16 members that are strings, numbers or booleans.",
        run_id: "Run."
      }
    ],
    run_reviews: [
      "Runs that were sampled for review and wait for it. Feedback on the run, or its deletion, removes the row by a trigger.",
      { ...orgId, task_id: "Task of the run.", run_id: "Run." }
    ],
    feedback: [
      "Feedback on runs: a score and, optionally, a correction that reviewers stage and promote.",
      {
        run_id: "Run that the feedback is about, in the order of runs.",
        release_id: "Release that answered the run; null: the client supplied the answer."
      }
    ],
    feedback_counts: [
      "Counts of feedback per release and day of the feedback. Kept by triggers on feedback. A count is the sum over all slots.",
      {
        ...orgId,
        task_id: "Task of the runs.",
        release_id: "Release that answered the runs; empty: the client supplied the answers.",
        day: "Day of the feedback, in UTC.",
        slot: "Part of the counter: concurrent statements add to different ones.",
        positive: "Feedback with the score 1.",
        neutral: "Feedback with the score 0.",
        negative: "Feedback with the score -1."
      }
    ]
  })
)
