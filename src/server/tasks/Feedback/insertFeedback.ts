import { Schema } from "effect"
import type { SqlClient } from "effect/sql"
import type { FeedbackRecord } from "../../../domain/tasks/Feedback.ts"
import { FeedbackId, type OrgId, type ReleaseId, type RunId } from "../../../domain/Ids.ts"
import { onlyOrganization } from "../../store/onlyOrganization.ts"
import { boolArray, float8Array, int4Array, textArray, timestamptzArray } from "../../store/pgArrays.ts"
import { rowsOf } from "../../store/rows.ts"
import { countedFeedbackColumns, feedbackCounts } from "../feedbackCounts.ts"
import type { EvaluatedRun } from "./rows.ts"

/** Feedback to insert. `correction` is its JSON text. */
export interface NewFeedbackRow {
  readonly org_id: OrgId
  readonly run_id: RunId
  /** The release that answered the run; null if the caller supplied the answer. */
  readonly release_id: ReleaseId | null
  readonly record: FeedbackRecord
  /** See `authorOf`. */
  readonly author: string
  readonly correction: string | null
  /** The facts of the run for the span of its feedback. */
  readonly evaluated: EvaluatedRun
}

/** Rows of feedback that a statement has inserted. */
const insertedRows = rowsOf(Schema.Struct({ feedback_id: FeedbackId, is_current: Schema.Boolean }))

/**
 * Inserts feedback and returns the inserted rows. It replaces the author's earlier opinion about the run, which then counts no longer; of
 * one author's opinions in `rows` the last one counts. A run with feedback waits for no review.
 *
 * Not inserted is feedback on a run that was deleted meanwhile. It waits for no row lock, because it inserts feedback on other runs too:
 * feedback is not inserted either while a deletion has locked its run, or another transaction the author's earlier opinion, or if
 * another transaction has just added one. The caller repeats it: see `insertOrWait`. A unique index lets an author have one current opinion.
 * The row of the run is locked against deletion until the feedback is committed, so that none is left when its run is deleted.
 */
export const insertFeedback = (
  sql: SqlClient.SqlClient,
  rows: ReadonlyArray<NewFeedbackRow>,
  org_id?: OrgId
) =>
  insertedRows.all(sql`
  WITH ${org_id === undefined ? sql.literal("") : sql`${lockedRuns(sql, rows, org_id)},`} incoming AS MATERIALIZED (
    SELECT
      r.*,
      (
        SELECT feedback_id
        FROM feedback
        WHERE feedback.org_id = ${org_id ?? sql.literal("r.org_id")}
          AND feedback.trace_id = r.trace_id
          AND feedback.author = r.author
          AND feedback.is_current
      ) AS earlier_id
    FROM unnest(
      ${textArray(rows.map(({ org_id }) => org_id))}::text[],
      ${textArray(rows.map(({ record }) => record.id))}::text[],
      ${textArray(rows.map(({ record }) => record.task_id))}::text[],
      ${textArray(rows.map(({ record }) => record.inference_log_id))}::text[],
      ${textArray(rows.map(({ run_id }) => run_id))}::text[],
      ${textArray(rows.map(({ release_id }) => release_id))}::text[],
      ${int4Array(rows.map(({ record }) => record.score))}::int[],
      ${float8Array(rows.map(({ record }) => record.score_value))}::float8[],
      ${textArray(rows.map(({ record }) => record.score_label))}::text[],
      ${textArray(rows.map(({ record }) => record.comment))}::text[],
      ${textArray(rows.map(({ record }) => record.source))}::text[],
      ${textArray(rows.map(({ record }) => record.end_user))}::text[],
      ${textArray(rows.map(({ correction }) => correction))}::text[],
      ${textArray(rows.map(({ record }) => record.status))}::text[],
      ${textArray(rows.map(({ author }) => author))}::text[],
      ${boolArray(currentOf(rows))}::bool[],
      ${textArray(rows.map(({ record }) => record.redaction_warning ?? null))}::text[],
      ${timestamptzArray(rows.map(({ record }) => record.created_at))}::timestamptz[],
      ${textArray(rows.map(({ record }) => record.created_by.id))}::text[],
      ${textArray(rows.map(({ record }) => record.created_by.name))}::text[]
    ) AS r (
      org_id, feedback_id, task_id, trace_id, run_id, release_id, score, score_value, score_label, comment, source,
      end_user, correction, status, author, is_current, redaction_warning, created_at, created_by_id, created_by_name
    )
      ${
        org_id === undefined
          ? sql.literal(`CROSS JOIN LATERAL (
              SELECT
              FROM runs
              WHERE runs.org_id = r.org_id
                AND runs.trace_id = r.trace_id
              FOR KEY SHARE SKIP LOCKED
            ) AS run`)
          : sql.literal("JOIN locked_runs USING (trace_id)")
      }
  ), locked AS MATERIALIZED (${lockedOpinions(sql, rows, org_id)}), replaced AS (
    SELECT locked.*
    FROM locked
    WHERE feedback_id IN (SELECT earlier_id FROM incoming WHERE is_current)
  ), outdated AS (
    UPDATE feedback
    SET is_current = false
    WHERE org_id = ${org_id ?? sql.literal("ANY(ARRAY(SELECT org_id FROM replaced))")}
      AND feedback_id = ANY(ARRAY(SELECT feedback_id FROM replaced))
    RETURNING feedback_id
  ), added AS (
    INSERT INTO feedback (
      org_id, feedback_id, task_id, trace_id, run_id, release_id, score, score_value, score_label, comment, source,
      end_user, correction, bytes, status, author, is_current, redaction_warning, created_at, created_by_id, created_by_name
    )
    SELECT
      org_id, feedback_id, task_id, trace_id, run_id, release_id, score, score_value, score_label, comment, source,
      end_user, correction::json, coalesce(octet_length(correction), 0) + coalesce(octet_length(comment), 0), status,
      author, is_current, redaction_warning, created_at, created_by_id, created_by_name
    FROM incoming
    -- Reads the update, which has to precede the insertion.
    WHERE NOT is_current
      OR earlier_id IS NULL
      OR earlier_id IN (SELECT feedback_id FROM outdated)
    ORDER BY org_id, trace_id, author
    ON CONFLICT (org_id, trace_id, author) WHERE is_current DO NOTHING
    RETURNING feedback_id, run_id, ${sql.literal(countedFeedbackColumns())}
  ), ${feedbackCounts(sql, { added: 1, replaced: -1 })}, reviewed AS (
    DELETE FROM run_reviews
    USING added
    WHERE run_reviews.org_id = added.org_id
      AND run_reviews.task_id = added.task_id
      AND run_reviews.run_id = added.run_id
      ${onlyOrganization(sql, "run_reviews.org_id", org_id)}
  )
  SELECT feedback_id, is_current
  FROM added
`)

/** Whether each one is the last of its author on its run. */
const currentOf = (rows: ReadonlyArray<NewFeedbackRow>): ReadonlyArray<boolean> => {
  const keyOf = ({ author, org_id, record }: NewFeedbackRow) =>
    `${org_id} ${record.inference_log_id} ${author}`
  const last = new Map(rows.map((row, index) => [keyOf(row), index]))
  return rows.map((row, index) => last.get(keyOf(row)) === index)
}

/** Locks the opinions that feedback replaces; on a node of a cluster, which locks rows in no join, perhaps others of these runs too. */
const lockedOpinions = (sql: SqlClient.SqlClient, rows: ReadonlyArray<NewFeedbackRow>, org_id?: OrgId) =>
  org_id === undefined
    ? sql.literal(`
      SELECT earlier.*
      FROM incoming
        CROSS JOIN LATERAL (
          SELECT feedback_id, ${countedFeedbackColumns()}
          FROM feedback
          WHERE feedback.org_id = incoming.org_id
            AND feedback.feedback_id = incoming.earlier_id
            AND feedback.is_current
          FOR NO KEY UPDATE SKIP LOCKED
        ) AS earlier
      WHERE incoming.is_current
    `)
    : sql`
      SELECT feedback_id, ${sql.literal(countedFeedbackColumns())}
      FROM feedback
      WHERE org_id = ${org_id}
        AND trace_id = ANY(${textArray(rows.map(({ record }) => record.inference_log_id))}::text[])
        AND author = ANY(${textArray(rows.map(({ author }) => author))}::text[])
        AND is_current
      FOR NO KEY UPDATE SKIP LOCKED
    `

/** A CTE that locks the runs of feedback. A node of a cluster locks rows in no join. */
const lockedRuns = (sql: SqlClient.SqlClient, rows: ReadonlyArray<NewFeedbackRow>, org_id: OrgId) => sql`
  locked_runs AS MATERIALIZED (
    SELECT trace_id
    FROM runs
    WHERE org_id = ${org_id}
      AND trace_id = ANY(${textArray(rows.map(({ record }) => record.inference_log_id))}::text[])
    FOR KEY SHARE SKIP LOCKED
  )`
