import { Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { type DeliveryOverview, OVERVIEW_ROWS } from "../../../api/console/Overview.ts"
import { EndpointId, type OrgId } from "../../../domain/Ids.ts"
import { TimestampFromDate } from "../../../domain/Time.ts"
import { rowsOf } from "../../store/rows.ts"

const counts = { delivered: Schema.Int, failed: Schema.Int }

const dayRows = rowsOf(Schema.Struct({ day: Schema.String, ...counts }))

const endpointRows = rowsOf(
  Schema.Struct({
    id: EndpointId,
    url_hint: Schema.String,
    description: Schema.NullOr(Schema.String),
    active: Schema.Boolean,
    ...counts,
    consecutive_failures: Schema.Int,
    cooldown_until: Schema.NullOr(TimestampFromDate)
  })
)

/** Reads how an organization's webhooks were delivered on the given days, which are consecutive. */
export const readDeliveries = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  days: ReadonlyArray<string>
) {
  const since = days[0] ?? ""
  const counted = yield* dayRows.all(sql`
    SELECT day::text AS day, sum(delivered)::int AS delivered, sum(failed)::int AS failed
    FROM delivery_counts
    WHERE org_id = ${org_id}
      AND day >= ${since}::text::date
      -- Not mail, nor telemetry.
      AND destination_id LIKE 'nep\\_%'
    GROUP BY delivery_counts.day
  `)
  const failing = yield* endpointRows.all(sql`
    SELECT
      endpoint_id AS id, url_hint, description, active, coalesce(delivered, 0) AS delivered, coalesce(failed, 0) AS failed,
      coalesce(consecutive_failures, 0) AS consecutive_failures, cooldown_until
    FROM notification_endpoints
      LEFT JOIN (
        SELECT destination_id, sum(delivered)::int AS delivered, sum(failed)::int AS failed
        FROM delivery_counts
        WHERE org_id = ${org_id}
          AND day >= ${since}::text::date
        GROUP BY destination_id
      ) AS counted ON counted.destination_id = endpoint_id
      LEFT JOIN delivery_destinations
        ON delivery_destinations.org_id = ${org_id}
        AND delivery_destinations.destination_id = endpoint_id
    WHERE notification_endpoints.org_id = ${org_id}
      AND (failed > 0 OR consecutive_failures > 0)
    ORDER BY coalesce(consecutive_failures, 0) > 0 DESC, coalesce(failed, 0) DESC, endpoint_id
    LIMIT ${OVERVIEW_ROWS}
  `)
  const byDay = new Map(counted.map((row) => [row.day, row]))
  const all = days.map((day) => {
    const { delivered = 0, failed = 0 } = byDay.get(day) ?? {}
    return { day, delivered, failed }
  })
  const total = { delivered: 0, failed: 0 }
  for (const { delivered, failed } of all) {
    total.delivered += delivered
    total.failed += failed
  }
  const overview: DeliveryOverview = { total, days: all, failing }
  return overview
})
