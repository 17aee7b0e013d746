import { DateTime, Duration, Effect, type Layer } from "effect"
import { SqlClient } from "effect/sql"
import { toDate } from "../../../domain/Time.ts"
import { atomic } from "../../store/transaction.ts"
import { deleteInBatches, toWorkerRun } from "../../concurrency/deleteInBatches.ts"
import { layerWorker } from "../../concurrency/Worker.ts"
import { StoreClock } from "../../store/StoreClock.ts"

/** Pause between two runs. */
const EVERY = Duration.hours(1)

/** Entries that one statement deletes. */
const BATCH_ROWS = 1_000

/** Statements of one run; the next run deletes the rest. */
const MAX_BATCHES = 200

export interface RetentionOptions {
  /** How long entries are retained. */
  readonly keep: Duration.Input
}

/** Deletes audit entries past their retention. Replicas can run this concurrently: each skips the rows that another has locked. */
export const runOnce = Effect.fn("Audit.Retention.runOnce")(function* ({ keep }: RetentionOptions) {
  const sql = yield* SqlClient.SqlClient
  const cutoff = toDate(DateTime.subtractDuration(yield* (yield* StoreClock).now, keep))
  const deleteBatch = atomic(sql)(
    Effect.gen(function* () {
      yield* sql`SELECT set_config('countersign.audit_retention', 'on', true)`
      const rows = yield* sql`
        DELETE FROM audit_log
        WHERE (org_id, entry_id) IN (
          SELECT org_id, entry_id
          FROM audit_log
          WHERE occurred_at < ${cutoff}
          LIMIT ${BATCH_ROWS}
          FOR UPDATE SKIP LOCKED
        )
        RETURNING 1 AS removed
      `
      return rows.length
    })
  )
  return yield* deleteInBatches(deleteBatch, { rows: BATCH_ROWS, steps: MAX_BATCHES })
})

/** The worker `audit_retention`: runs hourly, and after a second if a run left entries past their retention. */
export const layer = (
  options: RetentionOptions
): Layer.Layer<never, never, SqlClient.SqlClient | StoreClock> =>
  layerWorker({
    name: "audit_retention",
    runOnce: Effect.map(runOnce(options), toWorkerRun),
    every: EVERY,
    retryAfter: EVERY
  })
