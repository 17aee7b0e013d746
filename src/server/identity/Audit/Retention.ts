import { DateTime, Duration, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { toDate } from "../../../domain/Time.ts"
import { atomic } from "../../store/Database/transaction.ts"
import { repeatEvery, deleteInBatches } from "../../concurrency/deleteInBatches.ts"
import { StoreClock } from "../../store/StoreClock.ts"

/** How often it is looked after. */
const EVERY = Duration.hours(1)

/** Entries of one statement. */
const STEP_ROWS = 1_000

/** Statements of one run; what is left is for the next. */
const STEPS = 200

/** How long entries are kept. */
export interface RetentionOptions {
  readonly keep: Duration.Input
}

/** Removes the entries of the audit log that are older than they are kept; answers with how many. Several replicas share it out. */
export const runOnce = Effect.fn("Audit.Retention.runOnce")(function* ({ keep }: RetentionOptions) {
  const sql = yield* SqlClient.SqlClient
  const cutoff = toDate(DateTime.subtractDuration(yield* (yield* StoreClock).now, keep))
  const step = atomic(sql)(
    Effect.gen(function* () {
      yield* sql`SELECT set_config('countersign.audit_retention', 'on', true)`
      const rows = yield* sql`
        DELETE FROM audit_log
        WHERE (org_id, entry_id) IN (
          SELECT org_id, entry_id
          FROM audit_log
          WHERE occurred_at < ${cutoff}
          LIMIT ${STEP_ROWS}
          FOR UPDATE SKIP LOCKED
        )
        RETURNING 1 AS removed
      `
      return rows.length
    })
  )
  return yield* deleteInBatches(step, { rows: STEP_ROWS, steps: STEPS })
})

/** Runs at once and then every hour. Where more is left, it goes on at once. */
export const layer = (
  options: RetentionOptions
): Layer.Layer<never, never, SqlClient.SqlClient | StoreClock> =>
  Layer.effectDiscard(Effect.forkScoped(repeatEvery("Old audit entries", runOnce(options), EVERY)))
