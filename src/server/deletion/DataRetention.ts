import { DateTime, Duration, Effect, type Layer, Schema } from "effect"
import { SqlClient } from "effect/sql"
import type { DeletedCounts } from "../../domain/deletion/Deletion.ts"
import { OrgId } from "../../domain/Ids.ts"
import { deleteExpiredSession } from "../approvals/deleteExpiredSession.ts"
import { reportFailure } from "../concurrency/Worker.ts"
import { StoredUsage } from "../identity/StoredUsage.ts"
import { layerDueWorker } from "../store/layerDueWorker.ts"
import { rowsOf } from "../store/rows.ts"
import { StoreClock } from "../store/StoreClock.ts"
import { atomic } from "../store/transaction.ts"
import { countDeleted } from "../tasks/countDeleted.ts"
import { deleteExpiredFeedback, deleteExpiredRuns, type Expiry } from "../tasks/deleteExpired.ts"

/** The worker, in logs and metrics. */
const WORKER = "data_retention"

/** Pause between two runs. */
const EVERY = Duration.hours(1)

/** Pause after a run in which a transaction failed. */
const RETRY_AFTER = Duration.minutes(1)

/** Transactions of one run for each organization and kind; the next run continues. */
const MAX_STEPS = 20

/** Organizations that one statement reads. */
const MAX_ORGANIZATIONS = 100

const settingsRows = rowsOf(
  Schema.Struct({
    org_id: OrgId,
    run_days: Schema.NullOr(Schema.Int),
    feedback_days: Schema.NullOr(Schema.Int),
    session_days: Schema.NullOr(Schema.Int)
  })
)

const kinds = ["runs", "feedback", "sessions"] as const

/**
 * Deletes runs, feedback and agent sessions that are older than their organization retains them, in short transactions.
 * Their number for each organization is limited, so that one with millions of old runs does not delay the others. One that fails does not
 * stop the others.
 * Replicas can run it at the same time: each skips the rows that the other is deleting.
 */
export const runOnce = Effect.fn("DataRetention.runOnce")(function* () {
  const sql = yield* SqlClient.SqlClient
  const usage = yield* StoredUsage
  const { now: currentTime } = yield* StoreClock
  const now = yield* currentTime
  const atomically = atomic(sql)
  yield* countDeleted("retention", {})
  const removed = { runs: 0, feedback: 0, sessions: 0 }
  let more = false
  let isFailed = false
  let after = ""
  for (;;) {
    const settings = yield* settingsRows.all(sql`
      SELECT org_id, run_days, feedback_days, session_days
      FROM retention_settings
      WHERE org_id > ${after}
        AND coalesce(run_days, feedback_days, session_days) IS NOT NULL
      ORDER BY org_id
      LIMIT ${MAX_ORGANIZATIONS}
    `)
    for (const { feedback_days, org_id, run_days, session_days } of settings) {
      const days = { runs: run_days, feedback: feedback_days, sessions: session_days }
      const steps = {
        runs: (expiry: Expiry) => deleteExpiredRuns(sql, usage, expiry),
        feedback: (expiry: Expiry) => deleteExpiredFeedback(sql, usage, expiry),
        sessions: (expiry: Expiry) => deleteExpiredSession(sql, usage, expiry)
      }
      for (const kind of kinds) {
        const kept = days[kind]
        if (kept === null) continue
        const expiry: Expiry = { org_id, now, cutoff: DateTime.subtract(now, { days: kept }) }
        let left = MAX_STEPS
        let isOver = false
        while (!isOver && left > 0) {
          left--
          const step = yield* Effect.catchCause(atomically(steps[kind](expiry)), (cause) =>
            reportFailure(WORKER, `Could not delete expired ${kind} of ${org_id}; retrying`, cause)
          )
          if (step === undefined) {
            isFailed = true
            break
          }
          isOver = step.isOver
          yield* addTo(removed, step.deleted)
        }
        if (!isOver) more = true
      }
    }
    const last = settings.at(-1)
    if (last === undefined || settings.length < MAX_ORGANIZATIONS) break
    after = last.org_id
  }
  return { removed, more, isFailed }
})

const addTo = (
  sums: { runs: number; feedback: number; sessions: number },
  deleted: Partial<DeletedCounts>
) => {
  for (const kind of kinds) sums[kind] += deleted[kind] ?? 0
  return countDeleted("retention", deleted)
}

/** The worker: runs hourly, and after a second if a run left expired records. */
export const layer: Layer.Layer<never, never, SqlClient.SqlClient | StoreClock | StoredUsage> =
  layerDueWorker({
    name: WORKER,
    runOnce: Effect.map(runOnce(), ({ isFailed, more, removed }) => ({
      counts: removed,
      next: isFailed ? RETRY_AFTER : more ? "1 second" : undefined
    })),
    every: EVERY,
    retryAfter: RETRY_AFTER
  })
