import { Duration, Effect, type Layer } from "effect"
import { SqlClient } from "effect/sql"
import { toDate } from "../../../domain/Time.ts"
import { deleteInBatches, toWorkerRun } from "../../concurrency/deleteInBatches.ts"
import { layerDueWorker } from "../../store/layerDueWorker.ts"
import { StoreClock } from "../../store/StoreClock.ts"

/** Pause between two runs. */
const EVERY = Duration.minutes(10)

/** Maximum number of rows that one statement deletes. */
const BATCH_ROWS = 1_000

/** Maximum number of statements per run; the next run deletes the rest. */
const MAX_BATCHES = 200

/** Deletes the uses of feedback tokens that have expired: their expiry alone refuses them. */
export const runOnce = Effect.fn("FeedbackTokens.Retention.runOnce")(function* () {
  const sql = yield* SqlClient.SqlClient
  const now = toDate(yield* (yield* StoreClock).now)
  const deleteBatch = Effect.map(
    sql`
      WITH expired AS MATERIALIZED (
        SELECT org_id, token_id
        FROM feedback_token_uses
        WHERE expires_at < ${now}::timestamptz
        ORDER BY expires_at
        LIMIT ${BATCH_ROWS}
      )
      DELETE FROM feedback_token_uses AS used
      USING expired
      WHERE used.org_id = expired.org_id
        AND used.token_id = expired.token_id
      RETURNING 1 AS removed
    `,
    (rows) => rows.length
  )
  return yield* deleteInBatches(deleteBatch, { rows: BATCH_ROWS, steps: MAX_BATCHES })
})

/** The worker `feedback_token_retention`: runs every ten minutes, and after a second if a run left expired tokens. */
export const layer: Layer.Layer<never, never, SqlClient.SqlClient | StoreClock> = layerDueWorker({
  name: "feedback_token_retention",
  runOnce: Effect.map(runOnce(), toWorkerRun),
  every: EVERY,
  retryAfter: EVERY
})
