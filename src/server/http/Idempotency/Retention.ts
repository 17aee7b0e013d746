import { Effect, type Layer } from "effect"
import { SqlClient } from "effect/sql"
import { toDate } from "../../../domain/Time.ts"
import { deleteInBatches, toWorkerRun } from "../../concurrency/deleteInBatches.ts"
import { RETENTION_MILLIS } from "../../store/idempotencyKeys.ts"
import { layerDueWorker } from "../../store/layerDueWorker.ts"
import { StoreClock } from "../../store/StoreClock.ts"

/** Keys deleted per statement. */
const BATCH_ROWS = 1_000

/** Statements per run; the next run deletes the rest. */
const BATCHES = 200

/** Deletes expired keys. Several replicas may run it concurrently. */
export const runOnce = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const now = toDate(yield* (yield* StoreClock).now)
  const cutoff = new Date(now.getTime() - RETENTION_MILLIS)
  const deleteBatch = Effect.map(
    sql`
      WITH expired AS MATERIALIZED (
        SELECT org_id, operation, key
        FROM idempotency_keys
        WHERE created_at < ${cutoff}
        ORDER BY created_at
        LIMIT ${BATCH_ROWS}
      )
      DELETE FROM idempotency_keys AS used
      USING expired
      WHERE used.org_id = expired.org_id
        AND used.operation = expired.operation
        AND used.key = expired.key
        -- A request may have taken the key over meanwhile.
        AND used.created_at < ${cutoff}
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
