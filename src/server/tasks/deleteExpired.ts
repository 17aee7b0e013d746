import { Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { lockOnNode } from "../store/Cluster.ts"
import type { DeletedCounts } from "../../domain/deletion/Deletion.ts"
import { FeedbackStatus } from "../../domain/tasks/Feedback.ts"
import { FeedbackId, type OrgId, RunId, TraceId } from "../../domain/Ids.ts"
import { type Timestamp, toDate } from "../../domain/Time.ts"
import { rowBytes, type StoredUsage } from "../identity/StoredUsage.ts"
import { textArray } from "../store/pgArrays.ts"
import { rowsOf } from "../store/rows.ts"
import { rememberTraces } from "../telemetry/eraseSpans.ts"
import { keepSubjects } from "./Datasets/erasedRows.ts"
import { removedEntries } from "./runMetadata.ts"

/** Which records of an organization have expired. */
export interface Expiry {
  readonly org_id: OrgId
  readonly now: Timestamp
  /** Older records have expired. */
  readonly cutoff: Timestamp
}

/** The records that one transaction deleted, and whether no expired ones are left. */
export interface ExpiredDeletion {
  readonly deleted: Partial<DeletedCounts>
  readonly isOver: boolean
}

/** Runs that one transaction deletes. */
const MAX_RUNS = 200

/** Feedback records that one transaction deletes. */
const MAX_FEEDBACK = 1_000

/**
 * Metadata of the runs of that feedback, in bytes: each member becomes a row by which an erasure finds the examples of a
 * correction, and one run can have thousands.
 */
const MAX_METADATA_BYTES = 512 * 1024

/** The feedback on runs with this metadata that one transaction deletes. */
const mostFeedback = (metadata_bytes: number): number =>
  Math.min(MAX_FEEDBACK, Math.max(1, Math.floor(MAX_METADATA_BYTES / Math.max(1, metadata_bytes))))

const runRows = rowsOf(
  Schema.Struct({
    trace_id: TraceId,
    bytes: Schema.Int,
    feedback: Schema.Int,
    metadata_bytes: Schema.Int
  })
)

const traceRows = rowsOf(Schema.Struct({ trace_id: TraceId }))

const FeedbackRow = Schema.Struct({
  feedback_id: FeedbackId,
  trace_id: TraceId,
  status: FeedbackStatus,
  bytes: Schema.Int
})

const feedbackRows = rowsOf(FeedbackRow)

const weighedRows = rowsOf(Schema.Struct({ ...FeedbackRow.fields, metadata_bytes: Schema.Int }))

/** The first rows, as many as one transaction deletes; at least one, if there is any. */
const firstOf = <Row>(rows: ReadonlyArray<Row>, shareOf: (row: Row) => number): ReadonlyArray<Row> => {
  let share = 0
  // The sum of a thousand thousandths may be above 1.
  const end = rows.findIndex((row, index) => (share += shareOf(row)) > 1 + 1e-9 && index > 0)
  return end < 0 ? rows : rows.slice(0, end)
}

/**
 * Deletes the oldest expired runs of an organization with the feedback on them, task by task. A run with a staged
 * correction stays until the correction is promoted, rejected or unstaged. The examples that corrections became stay, and so do the counts
 * per day, which contain no personal data.
 *
 * Runs are in the order of their time in the index, so this reads the oldest of each task, and past those with staged
 * corrections: a task can have 10,000.
 */
export const deleteExpiredRuns = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  usage: StoredUsage["Service"],
  { cutoff, now, org_id }: Expiry
) {
  const candidates = yield* runRows.all(sql`
    SELECT expired.trace_id, expired.bytes, expired.feedback, expired.metadata_bytes
    FROM tasks
      CROSS JOIN LATERAL (
        SELECT
          trace_id, bytes, octet_length(metadata::text) AS metadata_bytes,
          (
            SELECT count(*)::int
            FROM (
              SELECT 1
              FROM feedback
              WHERE feedback.org_id = runs.org_id
                AND feedback.trace_id = runs.trace_id
              LIMIT ${MAX_FEEDBACK + 1}
            ) AS counted
          ) AS feedback
        FROM runs
        WHERE runs.org_id = tasks.org_id
          AND runs.task_id = tasks.task_id
          AND run_id < ${RunId.lowerBound(cutoff)}
          AND created_at < ${toDate(cutoff)}
          AND NOT EXISTS (
            SELECT 1
            FROM feedback
            WHERE feedback.org_id = runs.org_id
              AND feedback.trace_id = runs.trace_id
              AND status = 'staged'
          )
        ORDER BY run_id
        LIMIT ${MAX_RUNS}
      ) AS expired
    WHERE tasks.org_id = ${org_id}
    LIMIT ${MAX_RUNS}
  `)
  const locked = yield* lockOnNode(
    sql,
    org_id,
    traceRows.all(sql`
    SELECT trace_id
    FROM runs
    WHERE org_id = ${org_id}
      AND trace_id = ANY(${textArray(candidates.map(({ trace_id }) => trace_id))})
    FOR UPDATE SKIP LOCKED
  `)
  )
  const lockedTraces = new Set(locked.map(({ trace_id }) => trace_id))
  const runs = candidates.filter(({ trace_id }) => lockedTraces.has(trace_id))
  // Not more feedback than one transaction deletes. A run with more than that loses it first.
  const selected = firstOf(runs, ({ feedback, metadata_bytes }) => feedback / mostFeedback(metadata_bytes))
  const [first, ...others] = selected
  const limit = mostFeedback(first === undefined || others.length > 0 ? 0 : first.metadata_bytes)
  const found = yield* lockOnNode(
    sql,
    org_id,
    feedbackRows.all(sql`
    SELECT feedback_id, trace_id, status, bytes
    FROM feedback
    WHERE org_id = ${org_id}
      AND trace_id = ANY(${textArray(selected.map(({ trace_id }) => trace_id))})
    ORDER BY feedback_id
    LIMIT ${limit}::int
    FOR UPDATE
  `)
  )
  // There may be more, also because some was submitted between the count and the lock. The runs stay until they have none.
  const isPart = found.length === limit
  // Staged since the runs were selected.
  const staged = new Set(found.flatMap(({ status, trace_id }) => (status === "staged" ? [trace_id] : [])))
  const feedback = found.filter(({ trace_id }) => !staged.has(trace_id))
  yield* deleteFeedbackRows(sql, usage, org_id, feedback)
  if (isPart) {
    return { deleted: { feedback: feedback.length }, isOver: feedback.length === 0 } satisfies ExpiredDeletion
  }
  const expired = selected.filter(({ trace_id }) => !staged.has(trace_id))
  const trace_ids = expired.map(({ trace_id }) => trace_id)
  yield* sql`
    WITH deleted AS (
      DELETE FROM runs
      WHERE org_id = ${org_id}
        AND trace_id = ANY(${textArray(trace_ids)})
      RETURNING org_id, task_id, run_id, metadata
    ), ${removedEntries(sql, "deleted")}
    SELECT count(*)::int AS deleted
    FROM deleted
  `
  // Failed batches can be replayed for days.
  yield* rememberTraces(sql, org_id, trace_ids, now)
  const bytes = expired.reduce((sum, run) => sum + run.bytes + rowBytes.run, 0)
  yield* sql.afterCommit(Effect.sync(() => usage.add(org_id, { runs: -expired.length, bytes: -bytes })))
  const result: ExpiredDeletion = {
    deleted: { runs: expired.length, feedback: feedback.length },
    isOver: expired.length === 0 || (candidates.length < MAX_RUNS && selected.length === runs.length)
  }
  return result
})

/** Deletes the oldest expired feedback of an organization, except staged corrections. The counts per day stay. */
export const deleteExpiredFeedback = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  usage: StoredUsage["Service"],
  { cutoff, org_id }: Expiry
) {
  const expired = yield* lockOnNode(
    sql,
    org_id,
    weighedRows.all(sql`
    SELECT
      feedback_id, trace_id, status, bytes,
      CASE
        WHEN dataset_id IS NULL THEN 0
        ELSE coalesce((
          SELECT octet_length(metadata::text)
          FROM runs
          WHERE runs.org_id = feedback.org_id
            AND runs.trace_id = feedback.trace_id
        ), 0)
      END AS metadata_bytes
    FROM feedback
    WHERE org_id = ${org_id}
      AND feedback_id < ${FeedbackId.lowerBound(cutoff)}
      AND created_at < ${toDate(cutoff)}
      AND status <> 'staged'
    ORDER BY feedback_id
    LIMIT ${MAX_FEEDBACK}
    FOR UPDATE SKIP LOCKED
  `)
  )
  const feedback = firstOf(expired, ({ metadata_bytes }) => 1 / mostFeedback(metadata_bytes))
  yield* deleteFeedbackRows(sql, usage, org_id, feedback)
  const result: ExpiredDeletion = {
    deleted: { feedback: feedback.length },
    isOver: expired.length < MAX_FEEDBACK && feedback.length === expired.length
  }
  return result
})

const deleteFeedbackRows = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  usage: StoredUsage["Service"],
  org_id: OrgId,
  feedback: ReadonlyArray<Pick<typeof FeedbackRow.Type, "bytes" | "feedback_id">>
) {
  if (feedback.length === 0) return
  const ids = feedback.map(({ feedback_id }) => feedback_id)
  yield* keepSubjects(sql, org_id, ids)
  yield* sql`
    DELETE FROM feedback
    WHERE org_id = ${org_id}
      AND feedback_id = ANY(${textArray(ids)})
  `
  const bytes = feedback.reduce((sum, row) => sum + row.bytes + rowBytes.feedback, 0)
  yield* sql.afterCommit(Effect.sync(() => usage.add(org_id, { feedback: -ids.length, bytes: -bytes })))
})
