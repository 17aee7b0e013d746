import { Array as Arr, Effect, Option, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { lockOnNode } from "../../store/Cluster.ts"
import { notFound } from "../../../api/notFound.ts"
import { JsonObject } from "../../../domain/tasks/Dataset.ts"
import { DatasetId, FeedbackId, type OrgId, type TaskId, TraceId } from "../../../domain/Ids.ts"
import { TimestampFromDate } from "../../../domain/Time.ts"
import { textArray } from "../../store/pgArrays.ts"
import { countOf, rowsOf } from "../../store/rows.ts"
import { feedbackColumns, FeedbackRow } from "./rows.ts"

/** A staged correction, without its content. */
const StagedRow = Schema.Struct({
  feedback_id: FeedbackId,
  trace_id: TraceId,
  staged_at: TimestampFromDate,
  input_digest: Schema.String,
  /** Bytes of the correction and of the run's input together. */
  bytes: Schema.Int
})
export type StagedRow = typeof StagedRow.Type

const stagedRows = rowsOf(StagedRow)

/**
 * Reads the staged corrections of a task, all or those with these ids, optionally with row locks until the transaction ends.
 */
export const readStaged = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  task_id: TaskId,
  ids: ReadonlyArray<FeedbackId> | undefined,
  lock: "" | "FOR NO KEY UPDATE"
) => {
  const rows = stagedRows.all(sql`
    SELECT
      feedback_id, trace_id, reviewed_at AS staged_at, input_digest,
      bytes + input_bytes AS bytes
    FROM feedback
    WHERE org_id = ${org_id}
      AND task_id = ${task_id}
      AND status = 'staged'
      ${ids === undefined ? sql.literal("") : sql`AND feedback_id = ANY(${textArray(ids)})`}
    -- The order of the index: by feedback_id alone, the planner may scan all feedback of the organization.
    ORDER BY score, feedback_id DESC
    ${sql.literal(lock)}
  `)
  return lock === "" ? rows : lockOnNode(sql, org_id, rows)
}

/** Counts the staged corrections of a task. */
export const countStaged = (sql: SqlClient.SqlClient, org_id: OrgId, task_id: TaskId) =>
  countOf(sql`
    SELECT count(*)::int AS count
    FROM feedback
    WHERE org_id = ${org_id}
      AND task_id = ${task_id}
      AND status = 'staged'
  `)

/** Whether the submitter of a correction may stage it. */
export const allowsSelfReview = (sql: SqlClient.SqlClient, org_id: OrgId, task_id: TaskId) =>
  sql<{ readonly self_review: boolean }>`
    SELECT self_review
    FROM tasks
    WHERE org_id = ${org_id}
      AND task_id = ${task_id}
  `.pipe(Effect.map(([row]) => row?.self_review === true))

const taskRows = rowsOf(Schema.Struct({ dataset_id: Schema.NullOr(DatasetId) }))

/** Reads the id of the task's newest dataset version; null if it has none. Fails with a 404 if there is no such task. */
export const readNewestVersion = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  task_id: TaskId
) {
  const task = yield* taskRows.first(sql`
    SELECT dataset_id
    FROM tasks
    WHERE org_id = ${org_id}
      AND task_id = ${task_id}
  `)
  return task === undefined ? yield* notFound("task") : task.dataset_id
})

const correctionRows = rowsOf(
  Schema.Struct({
    ...FeedbackRow.fields,
    correction: JsonObject,
    input: JsonObject,
    /** Whether it is the run's own answer; without its secrets, if the score says that the answer is right. */
    confirms: Schema.Boolean
  })
)

/** Reads corrections with the inputs of their runs, in the order of the ids. */
export const readWithInputs = (sql: SqlClient.SqlClient, org_id: OrgId, ids: ReadonlyArray<FeedbackId>) =>
  Effect.map(
    correctionRows.all(sql`
      SELECT ${sql.literal(feedbackColumns.replaceAll(/\w+/g, "feedback.$&"))}, runs.input,
        coalesce(
          feedback.correction::text = runs.answer::text OR (feedback.score = 1 AND feedback.redaction_warning IS NOT NULL), false
        ) AS confirms
      FROM feedback
        JOIN runs USING (org_id, trace_id)
      WHERE org_id = ${org_id}
        AND feedback_id = ANY(${textArray(ids)})
    `),
    (rows) => {
      const byId = new Map(rows.map((row) => [row.feedback_id, row]))
      return Arr.getSomes(ids.map((id) => Option.fromUndefinedOr(byId.get(id))))
    }
  )

/** Counts how many of these inputs the task's newest dataset version contains. The digest includes the task: see `inputDigest`. */
export const countExistingInputs = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  digests: ReadonlyArray<string>
) =>
  countOf(sql`
    SELECT count(*)::int
    FROM dataset_examples
      JOIN unnest(${textArray(digests)}) AS digest ON input_digest = decode(digest, 'hex')
    WHERE org_id = ${org_id}
      AND until_version IS NULL
  `)
