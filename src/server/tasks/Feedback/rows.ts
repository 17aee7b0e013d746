import { Effect, Option, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { JsonObject } from "../../../domain/tasks/Dataset.ts"
import { EndUser } from "../../../domain/tasks/EndUser.ts"
import { type FeedbackRecord, FeedbackSource, FeedbackStatus, Score } from "../../../domain/tasks/Feedback.ts"
import {
  DatasetId,
  FeedbackId,
  KeyId,
  type OrgId,
  ReleaseId,
  RunId,
  TaskId,
  TraceId
} from "../../../domain/Ids.ts"
import { type Actor, actorOf } from "../../../domain/identity/Principal.ts"
import { type Timestamp, TimestampFromDate, toDate } from "../../../domain/Time.ts"
import { lockOnNode } from "../../store/Cluster.ts"
import { onlyOrganization } from "../../store/onlyOrganization.ts"
import { textArray } from "../../store/pgArrays.ts"
import { rowsOf } from "../../store/rows.ts"
import { ofExistingTask } from "../requireTask.ts"
import { secretsVersion } from "../../secrets/secretsVersion.ts"

/** A row of `feedback`. */
export const FeedbackRow = Schema.Struct({
  feedback_id: FeedbackId,
  task_id: TaskId,
  trace_id: TraceId,
  score: Score,
  score_value: Schema.NullOr(Schema.Finite),
  score_label: Schema.NullOr(Schema.String),
  comment: Schema.NullOr(Schema.String),
  source: FeedbackSource,
  end_user: Schema.NullOr(EndUser),
  correction: Schema.NullOr(JsonObject),
  status: FeedbackStatus,
  author: Schema.String,
  is_current: Schema.Boolean,
  withdrawn_at: Schema.NullOr(TimestampFromDate),
  redaction_warning: Schema.NullOr(Schema.String),
  created_at: TimestampFromDate,
  created_by_id: KeyId,
  created_by_name: Schema.String,
  reviewed_at: Schema.NullOr(TimestampFromDate),
  reviewed_by_id: Schema.NullOr(KeyId),
  reviewed_by_name: Schema.NullOr(Schema.String),
  review_note: Schema.NullOr(Schema.String),
  dataset_id: Schema.NullOr(DatasetId)
})
export type FeedbackRow = typeof FeedbackRow.Type

/** The columns of `FeedbackRow`. */
export const feedbackColumns = Object.keys(FeedbackRow.fields).join(", ")

const feedbackRows = rowsOf(FeedbackRow)

/** Converts a row to the API's feedback. */
export const toFeedback = (row: FeedbackRow): FeedbackRecord => ({
  id: row.feedback_id,
  task_id: row.task_id,
  inference_log_id: row.trace_id,
  score: row.score,
  score_value: row.score_value,
  score_label: row.score_label,
  comment: row.comment,
  source: row.source,
  end_user: row.end_user,
  correction: row.correction,
  status: row.status,
  current: row.is_current,
  withdrawn_at: row.withdrawn_at,
  ...(row.redaction_warning === null ? {} : { redaction_warning: row.redaction_warning }),
  created_at: row.created_at,
  created_by: { id: row.created_by_id, name: row.created_by_name },
  reviewed_at: row.reviewed_at,
  reviewed_by: actorOf(row.reviewed_by_id, row.reviewed_by_name),
  review_note: row.review_note,
  dataset_id: row.dataset_id
})

/** Reads feedback by ids, newest first. */
export const readFeedback = (sql: SqlClient.SqlClient, org_id: OrgId, ids: ReadonlyArray<FeedbackId>) =>
  feedbackRows.all(sql`
    SELECT ${sql.literal(feedbackColumns)}
    FROM feedback
    WHERE org_id = ${org_id}
      AND feedback_id = ANY(${textArray(ids)})
      AND ${ofExistingTask(sql, "feedback")}
    ORDER BY feedback_id DESC
  `)

/** Finds feedback and locks its row (`FOR NO KEY UPDATE`) until the transaction ends, so that reviews do not overlap. */
export const lockFeedbackForUpdate = (sql: SqlClient.SqlClient, org_id: OrgId, id: FeedbackId) =>
  lockOnNode(
    sql,
    org_id,
    feedbackRows.first(sql`
      SELECT ${sql.literal(feedbackColumns)}
      FROM feedback
      WHERE org_id = ${org_id}
        AND feedback_id = ${id}
        AND ${ofExistingTask(sql, "feedback")}
      FOR NO KEY UPDATE
    `)
  )

/** The input of a corrected run. */
export interface CorrectedInput {
  /** The digest of the input as a promotion stores it, without secrets. */
  readonly digest: string
  /** Its size as it was logged. */
  readonly bytes: number
}

/** The changes of a review. */
export interface Review {
  readonly status: FeedbackStatus
  /** When and by whom the correction was reviewed; null once the review is undone. */
  readonly verdict: { readonly at: Timestamp; readonly by: Actor } | null
  readonly note: string | null
  /** The input of the corrected run, for a staged correction; otherwise null. */
  readonly input: CorrectedInput | null
}

/** Writes a review and returns the updated row. */
export const writeReview = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  row: FeedbackRow,
  { input, note, status, verdict }: Review
) {
  yield* sql`
    UPDATE feedback
    SET
      status = ${status},
      reviewed_at = ${verdict === null ? null : toDate(verdict.at)},
      reviewed_by_id = ${verdict?.by.id ?? null},
      reviewed_by_name = ${verdict?.by.name ?? null},
      review_note = ${note},
      input_digest = ${input?.digest ?? null},
      input_bytes = ${input?.bytes ?? null}
    WHERE org_id = ${org_id}
      AND feedback_id = ${row.feedback_id}
  `
  const reviewed: FeedbackRow = {
    ...row,
    status,
    reviewed_at: verdict?.at ?? null,
    reviewed_by_id: verdict?.by.id ?? null,
    reviewed_by_name: verdict?.by.name ?? null,
    review_note: note
  }
  return reviewed
})

/** The key of a run. */
export interface RunKey {
  readonly org_id: OrgId
  readonly trace_id: TraceId
}

/** The columns of a run that the spans of its feedback need. */
export interface EvaluatedRun {
  /** The caller's `traceparent`. */
  readonly caller_traceparent: string | null
  /** The calls to a model that have spans: see `modelCalls`. */
  readonly provider_calls: number
}

/** SQL of the number of calls to a model that a row of `runs` has spans of: the service's, or the one that the client reported. */
export const modelCalls = (sql: SqlClient.SqlClient) =>
  sql.literal(`
  CASE runs.source WHEN 'logged' THEN (coalesce(runs.provider, runs.model) IS NOT NULL)::int ELSE runs.provider_calls END
`)

/** The columns of a run and its task that new feedback needs. */
const RunTask = Schema.Struct({
  task_id: TaskId,
  run_id: RunId,
  /** The release that answered the run; null if the caller supplied the answer. */
  release_id: Schema.NullOr(ReleaseId),
  caller_traceparent: Schema.NullOr(Schema.String),
  provider_calls: Schema.Int,
  /** The digest of the task's answer schema, which cannot change once the task has runs. */
  answer_schema_digest: Schema.String,
  /** The version of the organization's secrets: see `secretsVersion`. */
  secrets_version: Schema.String
})

const runTaskRows = rowsOf(Schema.Struct({ ...RunTask.fields, number: Schema.Int }))

/** Finds the tasks of runs, in the order of `runs`; none for an unknown run. */
export const findRunTasks = (sql: SqlClient.SqlClient, runs: ReadonlyArray<RunKey>, org_id?: OrgId) =>
  runTaskRows
    .all(
      sql`
    WITH named AS (
      SELECT *
      FROM unnest(
        ${textArray(runs.map(({ org_id }) => org_id))}::text[],
        ${textArray(runs.map(({ trace_id }) => trace_id))}::text[]
      ) WITH ORDINALITY AS n (org_id, trace_id, number)
    ), versions AS (
      SELECT org_id, ${secretsVersion(sql, org_id === undefined ? sql.literal("o.org_id") : sql`${org_id}`)} AS secrets_version
      FROM (SELECT DISTINCT org_id FROM named) AS o
    )
    SELECT
      number::int AS number, task_id, run_id, release_id, caller_traceparent, provider_calls, answer_schema_digest,
      secrets_version
    FROM named AS n
      JOIN versions USING (org_id)
      -- LATERAL with LIMIT forces one index look-up per run, even in a generic plan made while the table was small.
      CROSS JOIN LATERAL (
        SELECT
          task_id, run_id, CASE source WHEN 'provider' THEN release_id END AS release_id, caller_traceparent,
          ${modelCalls(sql)} AS provider_calls, answer_schema_digest
        FROM runs
          JOIN tasks USING (org_id, task_id)
        WHERE runs.org_id = n.org_id
          AND runs.trace_id = n.trace_id
          ${onlyOrganization(sql, "runs.org_id", org_id)}
        LIMIT 1
      ) AS task
  `
    )
    .pipe(
      Effect.map((rows) => {
        const byNumber = new Map(rows.map(({ number, ...task }) => [number, task]))
        return runs.map((_, index) => Option.fromUndefinedOr(byNumber.get(index + 1)))
      })
    )

const answerSchemaRows = rowsOf(Schema.Struct({ answer_schema: JsonObject }))

/** Reads the answer schema of a task. Undefined if the task has been deleted meanwhile. */
export const readAnswerSchema = (sql: SqlClient.SqlClient, org_id: OrgId, task_id: TaskId) =>
  Effect.map(
    answerSchemaRows.first(sql`
      SELECT answer_schema
      FROM tasks
      WHERE org_id = ${org_id}
        AND task_id = ${task_id}
    `),
    (row) => row?.answer_schema
  ).pipe(Effect.orDie)
