import { DateTime, Duration, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { uuidTimePrefix } from "../../../domain/Ids.ts"
import { transaction } from "../../store/Database/transaction.ts"
import { repeatEvery, deleteInBatches } from "../../concurrency/deleteInBatches.ts"
import { StoreClock } from "../../store/StoreClock.ts"

/** How often it is looked after. */
const EVERY = Duration.minutes(1)

/** Batches of one statement. */
const STEP_ROWS = 500

/** Statements of one run; what is left is for the next. */
const STEPS = 200

/** How long a batch can be replayed. */
export interface RetentionOptions {
  /** Default 72 hours. */
  readonly keep?: Duration.Duration
}

/**
 * Removes the payloads of failed batches that are too old to be sent again, and counts their spans as dropped; answers with how many
 * batches. Several replicas share it out.
 */
export const runOnce = Effect.fn("Telemetry.Retention.runOnce")(function* (options: RetentionOptions = {}) {
  const sql = yield* SqlClient.SqlClient
  const now = yield* (yield* StoreClock).now
  const step = removeOld(sql, DateTime.subtractDuration(now, options.keep ?? Duration.hours(72)))
  return yield* deleteInBatches(step, { rows: STEP_ROWS, steps: STEPS })
})

/** Runs at once and then every minute. Where more is left, it goes on at once. */
export const layer = (
  options: RetentionOptions = {}
): Layer.Layer<never, never, SqlClient.SqlClient | StoreClock> =>
  Layer.effectDiscard(Effect.forkScoped(repeatEvery("Old spans", runOnce(options), EVERY)))

/**
 * Organization by organization, by ids, which begin with the time they were made. The log row is held first, as a replay does: a
 * batch that is on its way again keeps its payload. Where the log is kept for less than the payloads, the row may be gone: what
 * is not in the log cannot be sent again. Destinations are held in one order everywhere, or two transactions could wait for
 * each other; and in a transaction, since whoever writes spans may hold one.
 */
const removeOld = (sql: SqlClient.SqlClient, cutoff: DateTime.Utc) =>
  Effect.map(
    transaction(
      sql<{ readonly removed: number }>`
        WITH RECURSIVE organizations_with AS (
          (SELECT org_id FROM telemetry_batches ORDER BY org_id LIMIT 1)
          UNION ALL
          SELECT n.org_id
          FROM organizations_with o
          CROSS JOIN LATERAL (
            SELECT org_id
            FROM telemetry_batches
            WHERE org_id > o.org_id
            ORDER BY org_id
            LIMIT 1
          ) n
        ), old AS (
          SELECT o.org_id, b.batch_id, b.destination_id, b.delivery_id
          FROM organizations_with o
          CROSS JOIN LATERAL (
            SELECT batch_id, destination_id, delivery_id
            FROM telemetry_batches b
            WHERE b.org_id = o.org_id
              AND b.batch_id < ${`evt_${uuidTimePrefix(cutoff)}`}
            ORDER BY batch_id
            LIMIT ${STEP_ROWS}::int
          ) b
          LIMIT ${STEP_ROWS}::int
        ), held AS MATERIALIZED (
          SELECT old.org_id, old.batch_id
          FROM old
          JOIN deliveries l USING (org_id, destination_id, delivery_id)
          WHERE l.status = 'failed'
          FOR UPDATE OF l SKIP LOCKED
        ), unlogged AS (
          SELECT old.org_id, old.batch_id
          FROM old
          WHERE NOT EXISTS (
            SELECT 1
            FROM deliveries l
            WHERE l.org_id = old.org_id
              AND l.destination_id = old.destination_id
              AND l.delivery_id = old.delivery_id
          )
        ), removed AS (
          DELETE FROM telemetry_batches b
          USING (SELECT * FROM held UNION ALL SELECT * FROM unlogged) r
          WHERE b.org_id = r.org_id
            AND b.batch_id = r.batch_id
          RETURNING b.org_id, b.destination_id, b.spans
        ), sums AS (
          SELECT org_id, destination_id, sum(spans) AS spans
          FROM removed
          GROUP BY org_id, destination_id
        ), destinations AS MATERIALIZED (
          SELECT d.org_id
          FROM telemetry_destinations d
          JOIN sums s USING (org_id, destination_id)
          ORDER BY d.org_id
          FOR NO KEY UPDATE OF d
        ), counted AS (
          UPDATE telemetry_destinations d
          SET dropped_spans = d.dropped_spans + s.spans
          FROM sums s
          JOIN destinations USING (org_id)
          WHERE d.org_id = s.org_id
            AND d.destination_id = s.destination_id
        )
        SELECT count(*)::int AS removed
        FROM removed
      `.unprepared
    ),
    ([row]) => row?.removed ?? 0
  ).pipe(Effect.provideService(SqlClient.SqlClient, sql))
