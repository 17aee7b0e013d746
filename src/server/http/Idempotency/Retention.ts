import { Duration, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { toDate } from "../../../domain/Time.ts"
import { RETENTION } from "../../store/idempotencyKeys.ts"
import { repeatEvery, deleteInBatches } from "../../concurrency/deleteInBatches.ts"
import { StoreClock } from "../../store/StoreClock.ts"

/** How often it is looked after. */
const EVERY = Duration.minutes(10)

/** Keys of one statement. */
const STEP_ROWS = 1_000

/** Statements of one run; what is left is for the next. */
const STEPS = 200

/** Removes the keys that are older than they are kept; answers with how many. Several replicas share it out. */
export const runOnce = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const now = toDate(yield* (yield* StoreClock).now)
  const step = Effect.map(
    sql`
      DELETE FROM idempotency_keys
      WHERE (org_id, operation, key) IN (
        SELECT org_id, operation, key
        FROM idempotency_keys
        WHERE created_at < ${now}::timestamptz - ${RETENTION}::interval
        ORDER BY created_at
        LIMIT ${STEP_ROWS}
        FOR UPDATE SKIP LOCKED
      )
      RETURNING 1 AS removed
    `,
    (rows) => rows.length
  )
  return yield* deleteInBatches(step, { rows: STEP_ROWS, steps: STEPS })
}).pipe(Effect.withSpan("Idempotency.Retention.runOnce"))

/** Runs at once and then every ten minutes. Where more is left, it goes on at once. */
export const layer: Layer.Layer<never, never, SqlClient.SqlClient | StoreClock> = Layer.effectDiscard(
  Effect.forkScoped(repeatEvery("Old idempotency keys", runOnce, EVERY))
)
