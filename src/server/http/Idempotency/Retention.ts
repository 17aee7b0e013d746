import { Effect, type Layer } from "effect"
import { SqlClient } from "effect/sql"
import { toDate } from "../../../domain/Time.ts"
import { deleteInBatches, toWorkerRun } from "../../concurrency/deleteInBatches.ts"
import { RETENTION } from "../../store/idempotencyKeys.ts"
import { layerDueWorker } from "../../store/layerDueWorker.ts"
import { StoreClock } from "../../store/StoreClock.ts"

/** Keys deleted per statement. */
const BATCH_ROWS = 1_000

/** Statements per run; the next run deletes the rest. */
const BATCHES = 200

/** Deletes expired keys. Several replicas may run it concurrently: each skips the rows that another has locked. */
export const runOnce = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const now = toDate(yield* (yield* StoreClock).now)
  const deleteBatch = Effect.map(
    sql`
      DELETE FROM idempotency_keys
      WHERE (org_id, operation, key) IN (
        SELECT org_id, operation, key
        FROM idempotency_keys
        WHERE created_at < ${now}::timestamptz - ${RETENTION}::interval
        ORDER BY created_at
        LIMIT ${BATCH_ROWS}
        FOR UPDATE SKIP LOCKED
      )
      RETURNING 1 AS removed
    `,
    (rows) => rows.length
  )
  return yield* deleteInBatches(deleteBatch, { rows: BATCH_ROWS, steps: BATCHES })
}).pipe(Effect.withSpan("Idempotency.Retention.runOnce"))

/** Deletes expired keys every ten minutes, and after a second while keys are left. */
export const layer: Layer.Layer<never, never, SqlClient.SqlClient | StoreClock> = layerDueWorker({
  name: "idempotency_retention",
  runOnce: Effect.map(runOnce, toWorkerRun),
  every: "10 minutes",
  // An unavailable database needs no quicker retry: the keys only wait longer.
  retryAfter: "10 minutes"
})
