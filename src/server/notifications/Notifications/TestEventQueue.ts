import { type Array as Arr, Effect, type Scope } from "effect"
import type { SqlClient, SqlError } from "effect/sql"
import { testEventBody } from "../../../domain/approvals/ApprovalEvent.ts"
import { type DeliveryId, type EndpointId, EventId, type OrgId } from "../../../domain/Ids.ts"
import type { Principal } from "../../../domain/identity/Principal.ts"
import { type Timestamp } from "../../../domain/Time.ts"
import type { Delivery, InsertedDelivery, PreparedDelivery } from "../../delivery/Delivery.ts"
import { appendedEntries, auditRowsTable, type NewAuditRow } from "../../identity/auditWrites.ts"
import type { Audit } from "../../identity/Audit.ts"
import { ABANDONED_WRITE_MILLIS, makeStatementBatcher } from "../../store/makeStatementBatcher.ts"
import { byteaArray, int4Array, textArray, timestamptzArray } from "../../store/pgArrays.ts"
import type { RecentEvents } from "./RecentEvents.ts"
import { WEBHOOK } from "./WebhookChannel.ts"

/** Test events of one statement. */
const MAX_BATCH = 64

/** The type of the event, and the label of its delivery. */
const TYPE = "test"

interface PreparedTest {
  readonly org_id: OrgId
  readonly endpoint_id: EndpointId
  readonly event_id: EventId
  readonly body: Uint8Array
  readonly delivery: PreparedDelivery
  readonly entry: NewAuditRow
  readonly now: Timestamp
}

/** The delivery of a test event. */
export interface QueuedTest {
  readonly delivery_id: DeliveryId
  /** Whether the delivery is queued. If the queue is full, it is recorded as failed. */
  readonly queued: boolean
  /** Whether the endpoint was in cooldown, by its stored health. */
  readonly isCoolingDown: boolean
}

interface QueuedRow extends InsertedDelivery {
  readonly number: number
  readonly delivery_id: DeliveryId
  readonly active: boolean
  readonly version: string
}

/**
 * Queues test events, each with its entry of the audit log. A statement, which is a transaction of its own, writes the events that arrive while
 * the one before commits: an organization's audited writes commit one after another. The result is null if nothing was written:
 * there is no such endpoint, it is being removed, or its queue is near its limit.
 */
export const makeTestEventQueue = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  delivery: Delivery["Service"],
  recent: RecentEvents["Service"],
  audit: Audit["Service"],
  onlyVerified: boolean
): Effect.fn.Return<
  (
    principal: Principal,
    endpoint_id: EndpointId,
    now: Timestamp
  ) => Effect.Effect<QueuedTest | null, SqlError.SqlError>,
  never,
  Scope.Scope
> {
  const write = (tests: Arr.NonEmptyReadonlyArray<PreparedTest>) =>
    delivery.enqueueWith(
      tests.map((test) => test.delivery),
      (parts) =>
        Effect.map(
          sql<QueuedRow>`
            WITH ${parts.given}, endpoint AS MATERIALIZED (
              -- The lock keeps an endpoint from being removed: a removed endpoint must have no queued deliveries.
              SELECT
                e.org_id, e.endpoint_id, e.active AND (e.verified_at IS NOT NULL OR NOT ${onlyVerified}::boolean) AS active,
                e.xmin::text AS version
              FROM destinations d
                JOIN notification_endpoints e ON e.org_id = d.org_id AND e.endpoint_id = d.destination_id
              WHERE NOT d.near_limit
              FOR KEY SHARE OF e SKIP LOCKED
            ), tested AS MATERIALIZED (
              SELECT t.*, g.org_id, g.destination_id, g.delivery_id, e.active, e.version
              FROM unnest(
                ${int4Array(tests.map((_, number) => number))}::int[],
                ${textArray(tests.map((test) => test.event_id))}::text[],
                ${byteaArray(tests.map((test) => test.body))}::bytea[],
                ${timestamptzArray(tests.map((test) => test.now))}::timestamptz[]
              ) AS t (number, event_id, body, occurred_at)
                JOIN given g ON g.event_id = t.event_id
                JOIN endpoint e ON e.org_id = g.org_id AND e.endpoint_id = g.destination_id
            ), ${appendedEntries(sql, {
              entries: sql`
                SELECT entry.*
                FROM ${auditRowsTable(
                  sql,
                  tests.map((test) => test.entry)
                )}
                  JOIN tested a ON a.number = entry.number
              `
            })}, inserted_events AS (
              INSERT INTO approval_events (org_id, event_id, type, approval_id, body, occurred_at)
              SELECT org_id, event_id, ${TYPE}, NULL, body, occurred_at
              FROM tested
            ), ${parts.insert(sql`
              SELECT g.*
              FROM given g
                JOIN tested a ON a.event_id = g.event_id
            `)}
            SELECT
              a.number, a.active, a.version, a.delivery_id, d.is_full, d.waiting, q.seq::float8 AS seq, d.consecutive_failures,
              d.cooldown_round, d.cooldown_ms
            FROM tested a
              JOIN destinations d ON d.org_id = a.org_id AND d.destination_id = a.destination_id
              LEFT JOIN queued q ON q.delivery_id = a.delivery_id
          `,
          (inserted) => {
            const rows = new Map(inserted.map((row) => [row.number, row]))
            const result = tests.map(({ body, endpoint_id, event_id }, number): QueuedTest | null => {
              const row = rows.get(number)
              if (row === undefined) return null
              const { active, cooldown_ms, delivery_id, seq, version } = row
              recent.keep({ event_id, type: TYPE, body }, active ? [{ endpoint_id, version }] : [])
              return { delivery_id, queued: seq !== null, isCoolingDown: (cooldown_ms ?? 0) > 0 }
            })
            return { inserted, result }
          }
        )
    )

  const submit = yield* makeStatementBatcher({
    sql,
    maxBatch: MAX_BATCH,
    organizationOf: ({ org_id }: PreparedTest) => org_id,
    // A second statement of the same organization would wait for the commit of the first.
    maxInFlight: 1,
    abandonedMillis: ABANDONED_WRITE_MILLIS,
    run: write
  })

  return Effect.fnUntraced(function* (principal, endpoint_id, now) {
    const { org_id } = principal
    const event_id = yield* EventId.generate
    const [prepared] = yield* delivery.prepare([
      { org_id, channel: WEBHOOK, destination_id: endpoint_id, event_id, label: TYPE }
    ])
    if (prepared === undefined) return yield* Effect.die(new Error("A prepared event must have a delivery"))
    const { delivery_id } = prepared
    return yield* submit({
      org_id,
      endpoint_id,
      event_id,
      body: Buffer.from(testEventBody({ id: event_id, org_id, occurred_at: now })),
      delivery: prepared,
      entry: yield* audit.prepare(principal, "endpoint.tested", endpoint_id, { delivery_id }),
      now
    })
  })
})
