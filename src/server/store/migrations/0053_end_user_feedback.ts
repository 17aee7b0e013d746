import { Effect } from "effect"
import { comments, orgId } from "./comments.ts"
import { statements } from "./statements.ts"

/** Adds to the counts of scores and of labels, from inserted or deleted feedback. */
const addScores = (rows: string, sign: "" | "-") => `
  IF NOT EXISTS (SELECT FROM ${rows} WHERE score_value IS NOT NULL OR score_label IS NOT NULL) THEN
    RETURN NULL;
  END IF;
  INSERT INTO feedback_counts AS c (
    org_id, task_id, day, release_id, slot, positive, neutral, negative, value_excess
  )
  SELECT
    org_id, task_id, (created_at AT TIME ZONE 'UTC')::date, coalesce(release_id, ''), pg_backend_pid() % 16, 0, 0, 0,
    ${sign}sum(round((score_value - score) * 1000000))::bigint
  FROM ${rows}
  WHERE score_value IS NOT NULL
  GROUP BY 1, 2, 3, 4
  -- All statements lock counters in the same order, or two of them could deadlock.
  ORDER BY 1, 2, 3, 4
  ON CONFLICT (org_id, task_id, day, release_id, slot) DO UPDATE
  SET value_excess = c.value_excess + excluded.value_excess;
  INSERT INTO feedback_label_counts AS c (org_id, task_id, day, release_id, score_label, slot, count)
  SELECT
    org_id, task_id, (created_at AT TIME ZONE 'UTC')::date, coalesce(release_id, ''), score_label,
    pg_backend_pid() % 16, ${sign}count(*)
  FROM ${rows}
  WHERE score_label IS NOT NULL
  GROUP BY 1, 2, 3, 4, 5
  ORDER BY 1, 2, 3, 4, 5
  ON CONFLICT (org_id, task_id, day, release_id, score_label, slot) DO UPDATE
  SET count = c.count + excluded.count;
  RETURN NULL;`

/**
 * Feedback of end users: comments, pseudonyms, values and labels beside the score; the uses of feedback tokens; the
 * origins whose pages may send it. The indexes have entries for feedback with a label, a comment or an end user only.
 *
 * All missing migrations are one transaction. So this one, which reads all feedback to build its indexes, is before those that lock tables
 * which runs need: meanwhile feedback waits, and runs do not. `NOT VALID`: the defaults satisfy the constraints, and checking them would
 * read all feedback once more.
 */
export default Effect.andThen(
  statements(
    `ALTER TABLE feedback
      ADD COLUMN score_value double precision,
      ADD COLUMN score_label text COLLATE "C",
      ADD COLUMN comment text,
      ADD COLUMN source text COLLATE "C" NOT NULL DEFAULT 'api_key',
      ADD COLUMN end_user text COLLATE "C",
      ADD CONSTRAINT feedback_score_value_check CHECK (score_value BETWEEN -1 AND 1) NOT VALID,
      ADD CONSTRAINT feedback_source_check CHECK (source IN ('api_key', 'feedback_token')) NOT VALID`,
    `CREATE INDEX feedback_end_users ON feedback (org_id, end_user, feedback_id DESC) WHERE end_user IS NOT NULL`,
    `CREATE INDEX feedback_labelled ON feedback (org_id, score_label, status, score, feedback_id DESC)
      WHERE score_label IS NOT NULL`,
    `CREATE INDEX feedback_task_labelled ON feedback (org_id, task_id, score_label, status, score, feedback_id DESC)
      WHERE score_label IS NOT NULL`,
    `CREATE INDEX feedback_commented ON feedback (org_id, status, score, feedback_id DESC) WHERE comment IS NOT NULL`,
    `CREATE INDEX feedback_task_commented ON feedback (org_id, task_id, status, score, feedback_id DESC)
      WHERE comment IS NOT NULL`,
    `ALTER TABLE feedback_counts ADD COLUMN value_excess bigint NOT NULL DEFAULT 0`,
    `CREATE TABLE feedback_labels (
      org_id text COLLATE "C" NOT NULL,
      task_id text COLLATE "C" NOT NULL,
      score_label text COLLATE "C" NOT NULL,
      PRIMARY KEY (org_id, task_id, score_label)
    )`,
    `CREATE TABLE feedback_label_counts (
      org_id text COLLATE "C" NOT NULL,
      task_id text COLLATE "C" NOT NULL,
      day date NOT NULL,
      release_id text COLLATE "C" NOT NULL,
      score_label text COLLATE "C" NOT NULL,
      slot smallint NOT NULL,
      count bigint NOT NULL,
      PRIMARY KEY (org_id, task_id, day, release_id, score_label, slot)
    ) WITH (fillfactor = 50)`,
    `CREATE FUNCTION feedback_scores_added() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN
        ${addScores("added", "")}
      END
    $$`,
    `CREATE TRIGGER feedback_scores_added AFTER INSERT ON feedback
      REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION feedback_scores_added()`,
    `CREATE FUNCTION feedback_scores_removed() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN
        ${addScores("removed", "-")}
      END
    $$`,
    `CREATE TRIGGER feedback_scores_removed AFTER DELETE ON feedback
      REFERENCING OLD TABLE AS removed FOR EACH STATEMENT
      -- Retention keeps the counts.
      WHEN (current_setting('countersign.keeps_feedback_counts', true) IS DISTINCT FROM 'on')
      EXECUTE FUNCTION feedback_scores_removed()`,
    `ALTER TABLE runs ADD COLUMN end_user_feedback integer NOT NULL DEFAULT 0`,
    `CREATE TABLE end_user_peppers (
      org_id text COLLATE "C" PRIMARY KEY,
      pepper bytea NOT NULL
    )`,
    `CREATE TABLE feedback_settings (
      org_id text COLLATE "C" PRIMARY KEY,
      revision integer NOT NULL,
      allowed_origins text[] COLLATE "C" NOT NULL
    )`,
    `CREATE TABLE feedback_token_uses (
      org_id text COLLATE "C" NOT NULL,
      token_id text COLLATE "C" NOT NULL,
      uses integer NOT NULL,
      last_digest text COLLATE "C" NOT NULL,
      expires_at timestamptz NOT NULL,
      PRIMARY KEY (org_id, token_id)
    )`,
    `CREATE INDEX feedback_token_uses_expired ON feedback_token_uses (expires_at)`
  ),
  comments({
    feedback: [
      "Feedback on runs: a score and, optionally, a comment and a correction that reviewers stage and promote.",
      {
        bytes: "Size of the correction and the comment, in bytes.",
        score_value: "Score between those of score, from -1 to 1; null: score alone was given.",
        score_label: "Category of the feedback; null: none.",
        comment: "Remark on the answer, after redaction; null: none.",
        source: "api_key: a caller with an API key gave it; feedback_token: an end user did.",
        end_user: "Pseudonym of the end user who gave it; null: given without."
      }
    ],
    feedback_counts: [
      "Counts of feedback per release and day of the feedback. Kept by triggers on feedback. A count is the sum over all slots.",
      { value_excess: "Sum of score_value less score, in millionths, over the feedback with a score_value." }
    ],
    feedback_labels: [
      "Labels of the feedback on the runs of a task: their number is limited.",
      { ...orgId, task_id: "Task of the runs.", score_label: "Label." }
    ],
    feedback_label_counts: [
      "Counts of feedback with a label, like feedback_counts. Kept by triggers on feedback.",
      {
        ...orgId,
        task_id: "Task of the runs.",
        day: "Day of the feedback, in UTC.",
        release_id: "Release that answered the runs; empty: the client supplied the answers.",
        score_label: "Label.",
        slot: "Part of the counter: concurrent statements add to different ones.",
        count: "Feedback with the label."
      }
    ],
    runs: [
      "Log of runs: one input and its answer or failure.",
      { end_user_feedback: "Feedback that was given with feedback tokens of the run." }
    ],
    end_user_peppers: [
      "Secret keys of the pseudonyms of end users.",
      { ...orgId, pepper: "Key, sealed: 32 random bytes in base64." }
    ],
    feedback_settings: [
      "Settings of organizations for the feedback of end users.",
      {
        ...orgId,
        revision: "Increases with every change.",
        allowed_origins: "Web origins whose pages may send feedback with a feedback token."
      }
    ],
    feedback_token_uses: [
      "Feedback tokens that were used. A row is removed after the token has expired.",
      {
        ...orgId,
        token_id: "Token.",
        uses: "Feedback that was given with it.",
        last_digest: "SHA-256 of its newest feedback, in hex: the same one sent again is not stored again.",
        expires_at: "When the token expires."
      }
    ]
  })
)
