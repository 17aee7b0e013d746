import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import { testEventBody } from "../../../domain/approvals/ApprovalEvent.ts"
import { type EndpointId, EventId } from "../../../domain/Ids.ts"
import type { Principal } from "../../../domain/identity/Principal.ts"
import { type Timestamp, toDate } from "../../../domain/Time.ts"
import type { Delivery, InsertedDelivery } from "../../delivery/Delivery.ts"
import { appendedEntries, auditRowsTable } from "../../identity/auditWrites.ts"
import type { Audit } from "../../identity/Audit.ts"
import type { RecentEvents } from "./RecentEvents.ts"
import { WEBHOOK } from "./WebhookChannel.ts"

interface QueuedRow extends InsertedDelivery {
  readonly active: boolean
  readonly version: string
}

/**
 * Queues a test event for an endpoint by one statement, which is a transaction of its own. Returns the delivery's id
 * and whether it is queued; if the queue is full, it is recorded as failed. Undefined if nothing was written: there is
 * no such endpoint, it is being removed, or its queue is near its limit.
 */
export const queueTestEvent = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  delivery: Delivery["Service"],
  recent: RecentEvents["Service"],
  audit: Audit["Service"],
  principal: Principal,
  id: EndpointId,
  now: Timestamp,
  onlyVerified: boolean
) {
  const { org_id } = principal
  const event_id = yield* EventId.generate
  const type = "test"
  const body = Buffer.from(testEventBody({ id: event_id, org_id, occurred_at: now }))
  const prepared = yield* delivery.prepare([
    { org_id, channel: WEBHOOK, destination_id: id, event_id, label: type }
  ])
  const delivery_id = prepared[0]?.delivery_id ?? null
  const entry = yield* audit.prepare(principal, "endpoint.tested", id, { delivery_id })
  return yield* delivery.enqueueWith(prepared, (parts) =>
    Effect.map(
      sql<QueuedRow>`
        WITH ${parts.given}, endpoint AS MATERIALIZED (
          -- The lock keeps the endpoint from being removed: a removed endpoint must have no queued deliveries.
          SELECT
            e.org_id, e.endpoint_id, e.active AND (e.verified_at IS NOT NULL OR NOT ${onlyVerified}::boolean) AS active,
            e.xmin::text AS version
          FROM notification_endpoints e
            JOIN destinations d ON d.org_id = e.org_id AND d.destination_id = e.endpoint_id
          WHERE e.org_id = ${org_id}
            AND e.endpoint_id = ${id}
            AND NOT d.near_limit
          FOR KEY SHARE OF e SKIP LOCKED
        ), ${appendedEntries(sql, {
          entries: sql`SELECT entry.* FROM ${auditRowsTable(sql, [entry])} CROSS JOIN endpoint`,
          org_id
        })}, inserted_event AS (
          INSERT INTO approval_events (org_id, event_id, type, approval_id, body, occurred_at)
          SELECT org_id, ${event_id}, ${type}, NULL, ${body}::bytea, ${toDate(now)}::timestamptz
          FROM endpoint
        ), ${parts.insert(sql`
          SELECT g.*
          FROM given g
            JOIN endpoint e ON e.org_id = g.org_id AND e.endpoint_id = g.destination_id
        `)}
        SELECT
          e.active, e.version, g.delivery_id, d.is_full, d.waiting, q.seq::float8 AS seq, d.consecutive_failures, d.cooldown_round, d.cooldown_ms
        FROM endpoint e
          JOIN given g ON g.org_id = e.org_id AND g.destination_id = e.endpoint_id
          JOIN destinations d ON d.org_id = e.org_id AND d.destination_id = e.endpoint_id
          LEFT JOIN queued q ON q.delivery_id = g.delivery_id
      `,
      (rows) => {
        const [row] = rows
        if (row === undefined) return { inserted: [], result: undefined }
        recent.keep({ event_id, type, body }, row.active ? [{ endpoint_id: id, version: row.version }] : [])
        return { inserted: [row], result: { delivery_id: row.delivery_id, queued: row.seq !== null } }
      }
    )
  )
}, Effect.orDie)
