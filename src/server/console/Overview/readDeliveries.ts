import { DateTime, Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { type DeliveryOverview, OVERVIEW_ROWS } from "../../../api/console/Overview.ts"
import { EndpointId, type OrgId } from "../../../domain/Ids.ts"
import type { Timestamp } from "../../../domain/Time.ts"
import type { Delivery } from "../../delivery/Delivery.ts"
import { rowsOf } from "../../store/rows.ts"

const counts = { delivered: Schema.Int, failed: Schema.Int }

const dayRows = rowsOf(Schema.Struct({ day: Schema.String, ...counts }))

const endpointRows = rowsOf(
  Schema.Struct({
    id: EndpointId,
    url_hint: Schema.String,
    description: Schema.NullOr(Schema.String),
    active: Schema.Boolean,
    ...counts
  })
)

/** The most endpoints that are examined; more than an organization usually has. */
const MAX_ENDPOINTS = 100

/** Reads how an organization's webhooks were delivered on the given days, which are consecutive. */
export const readDeliveries = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  delivery: Delivery["Service"],
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
  const endpoints = yield* endpointRows.all(sql`
    SELECT
      endpoint_id AS id, url_hint, description, active, coalesce(delivered, 0) AS delivered, coalesce(failed, 0) AS failed
    FROM notification_endpoints
      LEFT JOIN (
        SELECT destination_id, sum(delivered)::int AS delivered, sum(failed)::int AS failed
        FROM delivery_counts
        WHERE org_id = ${org_id}
          AND day >= ${since}::text::date
        GROUP BY destination_id
      ) AS counted ON counted.destination_id = endpoint_id
    WHERE notification_endpoints.org_id = ${org_id}
    ORDER BY endpoint_id
    LIMIT ${MAX_ENDPOINTS}::int
  `)
  const ids = endpoints.map(({ id }) => id)
  const healths = yield* delivery.health(org_id, ids)
  const oldest = yield* delivery.oldestWaiting(org_id, ids)
  const all = endpoints.map((endpoint) => {
    const {
      consecutive_failures = 0,
      cooldown_until = null,
      pending_deliveries = 0
    } = healths.get(endpoint.id) ?? {}
    return {
      ...endpoint,
      consecutive_failures,
      // Nothing is sent to a disabled endpoint, so it is not paused either.
      cooldown_until: endpoint.active ? cooldown_until : null,
      waiting: pending_deliveries,
      oldest_waiting_at: oldest.get(endpoint.id) ?? null
    }
  })
  const isFailing = ({ active, consecutive_failures }: (typeof all)[number]) =>
    active && consecutive_failures > 0
  const failing = all
    .filter((endpoint) => endpoint.failed > 0 || endpoint.consecutive_failures > 0)
    .toSorted(
      (a, b) => Number(isFailing(b)) - Number(isFailing(a)) || b.waiting - a.waiting || b.failed - a.failed
    )
    .slice(0, OVERVIEW_ROWS)
  const byDay = new Map(counted.map((row) => [row.day, row]))
  const daily = days.map((day) => {
    const { delivered = 0, failed = 0 } = byDay.get(day) ?? {}
    return { day, delivered, failed }
  })
  const total: { -readonly [Key in keyof DeliveryOverview["total"]]: DeliveryOverview["total"][Key] } = {
    delivered: 0,
    failed: 0,
    waiting: 0,
    oldest_waiting_at: earliest([...oldest.values()])
  }
  for (const { delivered, failed } of daily) {
    total.delivered += delivered
    total.failed += failed
  }
  for (const { waiting } of all) total.waiting += waiting
  const overview: DeliveryOverview = { total, days: daily, failing }
  return overview
})

const earliest = (times: ReadonlyArray<Timestamp>): Timestamp | null => {
  const [first, ...others] = times
  return first === undefined ? null : others.reduce(DateTime.min, first)
}
