import { Context, DateTime, Effect, Layer, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { Authorized } from "../../api/Authorization.ts"
import { HEALTH_HOURS, type HealthBucket } from "../../api/Console.ts"
import { TimestampFromDate, toDate } from "../../domain/Time.ts"
import { rowsOf } from "../store/rows.ts"
import { StoreClock } from "../store/StoreClock.ts"

/** The most attempts that are aggregated. For a destination with more in two days, only the newest are counted. */
const MAX_ATTEMPTS = 50_000

/** Attempts to a destination aggregated by hour, for the console's charts. */
export class DeliveryHealth extends Context.Service<
  DeliveryHealth,
  {
    /** The last `HEALTH_HOURS` hours, oldest first, including hours without attempts. */
    readonly hourly: (
      destination_id: string
    ) => Effect.Effect<ReadonlyArray<HealthBucket>, never, Authorized<"org_config.read">>
  }
>()("countersign/server/console/DeliveryHealth") {
  static readonly layer = Layer.effect(
    DeliveryHealth,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const clock = yield* StoreClock
      return DeliveryHealth.of({
        hourly: Effect.fn("DeliveryHealth.hourly")(function* (destination_id) {
          const { org_id } = yield* Authorized("org_config.read")
          const from = DateTime.subtract(DateTime.startOf(yield* clock.now, "hour"), {
            hours: HEALTH_HOURS - 1
          })
          const rows = yield* bucketRows.all(sql`
            SELECT date_trunc('hour', started_at) AS at,
              count(*) FILTER (WHERE error IS NULL)::int AS delivered,
              count(*) FILTER (WHERE error IS NOT NULL)::int AS failed,
              percentile_disc(0.5) WITHIN GROUP (ORDER BY duration_ms) AS median_ms,
              percentile_disc(0.95) WITHIN GROUP (ORDER BY duration_ms) AS slow_ms
            FROM (
              SELECT started_at, error, duration_ms
              FROM delivery_attempts
              WHERE org_id = ${org_id}
                AND destination_id = ${destination_id}
                AND started_at >= ${toDate(from)}::timestamptz
              ORDER BY delivery_id DESC
              LIMIT ${MAX_ATTEMPTS}
            ) AS newest
            GROUP BY 1
          `)
          const byHour = new Map(rows.map((row) => [DateTime.toEpochMillis(row.at), row]))
          return Array.from({ length: HEALTH_HOURS }, (_, hour): HealthBucket => {
            const at = DateTime.add(from, { hours: hour })
            return byHour.get(DateTime.toEpochMillis(at)) ?? { at, ...emptyBucket }
          })
        }, Effect.orDie)
      })
    })
  )
}

const emptyBucket = { delivered: 0, failed: 0, median_ms: null, slow_ms: null }

const bucketRows = rowsOf(
  Schema.Struct({
    at: TimestampFromDate,
    delivered: Schema.Int,
    failed: Schema.Int,
    median_ms: Schema.NullOr(Schema.Int),
    slow_ms: Schema.NullOr(Schema.Int)
  })
)
