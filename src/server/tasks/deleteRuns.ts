import { Effect, Schema } from "effect"
import type { SqlClient, Statement } from "effect/sql"
import { lockOnNode } from "../store/Cluster.ts"
import { FeedbackStatus } from "../../domain/tasks/Feedback.ts"
import { FeedbackId, type OrgId, type TaskId, TraceId } from "../../domain/Ids.ts"
import type { Timestamp } from "../../domain/Time.ts"
import { rowBytes, type StoredUsage } from "../identity/StoredUsage.ts"
import { textArray } from "../store/pgArrays.ts"
import { rowsOf } from "../store/rows.ts"
import { atomic, requireTransaction } from "../store/transaction.ts"
import { rememberTraces } from "../telemetry/eraseSpans.ts"
import { acquireDatasetLock } from "./Datasets/datasetLock.ts"
import { deleteResultsAhead, eraseExamples, findPromoted } from "./Datasets/erasedRows.ts"
import { countedFeedbackColumns, feedbackCounts } from "./feedbackCounts.ts"
import { countedRunColumns, runCounts } from "./runCounts.ts"
import { removedEntries } from "./runMetadata.ts"

/** Runs that one transaction deletes. */
export const MAX_DELETED_RUNS = 200

/** Feedback records that one transaction deletes: a run can have any number of them. */
export const MAX_DELETED_FEEDBACK = 1_000

/** Examples that one transaction erases. Each can have 256 words in the search index. */
export const MAX_ERASED_EXAMPLES = 200

/** The runs to delete, all of one task. */
export interface RunSelection {
  readonly org_id: OrgId
  readonly task_id: TaskId
  /** At most `MAX_DELETED_RUNS`. */
  readonly trace_ids: ReadonlyArray<TraceId>
}

/** The further effects of a deletion of runs and feedback. */
export interface RunDeletionOptions {
  /**
   * Whether to erase the examples that promoted corrections became, from every dataset version. The transaction needs
   * the dataset lock for that.
   */
  readonly erasesExamples: boolean
  readonly now: Timestamp
}

/** The records that one transaction deleted. */
export interface DeletedRuns {
  readonly runs: number
  readonly feedback: number
  readonly examples: number
  /** Whether feedback, or results of its examples, are left, and with them the runs: the next transaction continues. */
  readonly more: boolean
}

/** The other records that the deletion of feedback deleted. */
export interface DeletedFeedback {
  /** Examples that were erased. */
  readonly examples: number
  /** Whether nothing but results of the examples was deleted, because they have many: the next transaction continues. */
  readonly more: boolean
}

/**
 * Runs a deletion in a transaction. If it finds a correction whose example has to be erased, it changes nothing and
 * returns `undefined`. The caller then acquires the dataset lock, before any row, and runs it again. Most runs have no
 * correction, and their deletion need not wait for an import.
 */
export const withDatasetLockIfNeeded = Effect.fnUntraced(function* <A, E, R>(
  sql: SqlClient.SqlClient,
  { org_id, task_id }: Pick<RunSelection, "org_id" | "task_id">,
  deletion: (hasLock: boolean) => Effect.Effect<A | undefined, E, R>
) {
  const atomically = atomic(sql)
  const deleted = yield* atomically(deletion(false))
  if (deleted !== undefined) return deleted
  const locked = yield* atomically(Effect.andThen(acquireDatasetLock(sql, org_id, task_id), deletion(true)))
  return locked ?? (yield* Effect.die(new Error("A deletion with the dataset lock did nothing")))
})

const runRows = rowsOf(Schema.Struct({ trace_id: TraceId, bytes: Schema.Int }))

const feedbackRows = rowsOf(
  Schema.Struct({ feedback_id: FeedbackId, status: FeedbackStatus, bytes: Schema.Int })
)
type FeedbackToDelete = Effect.Success<ReturnType<typeof lockFeedback>>[number]

/**
 * Deletes runs with the feedback on them, also from the counts, in the caller's transaction. Locks the runs first: feedback that is being
 * inserted holds a lock on its run, so this waits for it and then deletes it too. Call it again while `more`. Returns
 * `undefined` if it needs the dataset lock.
 */
export const deleteRuns = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  usage: StoredUsage["Service"],
  selection: RunSelection,
  options: RunDeletionOptions,
  hasLock: boolean
) {
  yield* requireTransaction
  const { org_id, trace_ids } = selection
  const runs = yield* lockOnNode(
    sql,
    org_id,
    runRows.all(sql`
    SELECT trace_id, bytes
    FROM runs
    WHERE org_id = ${org_id}
      AND trace_id = ANY(${textArray(trace_ids)})
    ORDER BY trace_id
    FOR UPDATE
  `)
  )
  const found = yield* lockFeedback(sql, org_id, sql`trace_id = ANY(${textArray(trace_ids)})`)
  const feedback = firstOf(found, options)
  const erased = yield* eraseExamplesOf(sql, usage, selection, feedback, options, hasLock)
  if (erased === undefined) return undefined
  if (erased.more) return { runs: 0, feedback: 0, examples: 0, more: true } satisfies DeletedRuns
  const { examples } = erased
  const more = feedback.length < found.length
  // Runs are counted before their feedback, as by an import, or the two could deadlock.
  if (!more) {
    yield* sql`
      WITH deleted AS (
        DELETE FROM runs
        WHERE org_id = ${org_id}
          AND trace_id = ANY(${textArray(trace_ids)})
        RETURNING run_id, metadata, ${sql.literal(countedRunColumns())}
      ), ${runCounts(sql, "deleted", -1)}, ${removedEntries(sql, "deleted")}
      SELECT count(*)::int AS deleted
      FROM deleted
    `
  }
  yield* deleteFeedbackRows(sql, usage, org_id, feedback, erased.bytes)
  if (more) return { runs: 0, feedback: feedback.length, examples, more } satisfies DeletedRuns
  yield* rememberTraces(sql, org_id, trace_ids, options.now)
  const bytes = runs.reduce((sum, run) => sum + run.bytes + rowBytes.run, 0)
  yield* sql.afterCommit(Effect.sync(() => usage.add(org_id, { runs: -runs.length, bytes: -bytes })))
  const deleted: DeletedRuns = { runs: runs.length, feedback: feedback.length, examples, more }
  return deleted
})

/** Whether an example may have been made from feedback. Not only if it is promoted: a promotion may be about to commit. */
const isCorrection = ({ status }: FeedbackToDelete): boolean => status !== "recorded"

/** The first feedback, as much as one transaction deletes. */
const firstOf = (
  found: ReadonlyArray<FeedbackToDelete>,
  { erasesExamples }: RunDeletionOptions
): ReadonlyArray<FeedbackToDelete> => {
  const first = found.slice(0, MAX_DELETED_FEEDBACK)
  let corrections = 0
  const end = first.findIndex((row) => isCorrection(row) && ++corrections > MAX_ERASED_EXAMPLES)
  return erasesExamples && end >= 0 ? first.slice(0, end) : first
}

/**
 * Deletes locked feedback of one task, also from the counts, in the caller's transaction, and the examples that its corrections became, if
 * `erasesExamples`: then at most `MAX_ERASED_EXAMPLES` are corrections. Call it again while `more`. Returns `undefined` if
 * it needs the dataset lock.
 */
export const deleteFeedback = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  usage: StoredUsage["Service"],
  selection: Pick<RunSelection, "org_id" | "task_id">,
  feedback: ReadonlyArray<FeedbackToDelete>,
  options: RunDeletionOptions,
  hasLock: boolean
) {
  const erased = yield* eraseExamplesOf(sql, usage, selection, feedback, options, hasLock)
  if (erased === undefined) return undefined
  const { bytes, examples, more } = erased
  if (!more) yield* deleteFeedbackRows(sql, usage, selection.org_id, feedback, bytes)
  return { examples, more } satisfies DeletedFeedback
})

/** Erases the examples of feedback that is about to be deleted, and returns their size too; see `deleteFeedback`. */
const eraseExamplesOf = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  usage: StoredUsage["Service"],
  { org_id, task_id }: Pick<RunSelection, "org_id" | "task_id">,
  feedback: ReadonlyArray<FeedbackToDelete>,
  { erasesExamples, now }: RunDeletionOptions,
  hasLock: boolean
) {
  if (!erasesExamples || !feedback.some(isCorrection)) return { examples: 0, bytes: 0, more: false }
  if (!hasLock) return undefined
  const ids = feedback.map(({ feedback_id }) => feedback_id)
  const examples = yield* findPromoted(sql, org_id, task_id, ids)
  const results = yield* deleteResultsAhead(sql, org_id, examples)
  if (!results.isOver) {
    yield* sql.afterCommit(Effect.sync(() => usage.add(org_id, { bytes: -results.bytes })))
    return { examples: 0, bytes: 0, more: true }
  }
  const bytes = results.bytes + (yield* eraseExamples(sql, org_id, task_id, examples, now))
  return { examples: examples.length, bytes, more: false }
})

/** Deletes feedback from the log and the counts. `erased` is the size of the examples that were erased with it. */
const deleteFeedbackRows = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  usage: StoredUsage["Service"],
  org_id: OrgId,
  feedback: ReadonlyArray<FeedbackToDelete>,
  erased: number
) {
  if (feedback.length === 0) return
  yield* sql`
    WITH deleted AS (
      DELETE FROM feedback
      WHERE org_id = ${org_id}
        AND feedback_id = ANY(${textArray(feedback.map(({ feedback_id }) => feedback_id))})
      RETURNING ${sql.literal(countedFeedbackColumns())}
    ), ${feedbackCounts(sql, { deleted: -1 })}
    SELECT count(*)::int AS deleted
    FROM deleted
  `
  const bytes = feedback.reduce((sum, row) => sum + row.bytes + rowBytes.feedback, erased)
  yield* sql.afterCommit(Effect.sync(() => usage.add(org_id, { feedback: -feedback.length, bytes: -bytes })))
})

/** Locks feedback until the transaction ends, up to one more than `deleteRuns` deletes. */
export const lockFeedback = (sql: SqlClient.SqlClient, org_id: OrgId, condition: Statement.Fragment) =>
  lockOnNode(
    sql,
    org_id,
    feedbackRows.all(sql`
    SELECT feedback_id, status, bytes
    FROM feedback
    WHERE org_id = ${org_id}
      AND ${condition}
    ORDER BY feedback_id
    LIMIT ${MAX_DELETED_FEEDBACK + 1}
    FOR UPDATE
  `)
  )
