import { Array as Arr, Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { ApprovalEventType } from "../../domain/ApprovalEvent.ts"
import { EndpointId, type EventId, KeyId, OrgId } from "../../domain/Ids.ts"
import { TimestampFromDate } from "../../domain/Time.ts"
import type { Place } from "../SecretBox.ts"

/** An endpoint as the store holds it: its URL and its secret sealed. */
export const EndpointRow = Schema.Struct({
  org_id: OrgId,
  endpoint_id: EndpointId,
  url: Schema.Uint8Array,
  url_hint: Schema.String,
  secret: Schema.Uint8Array,
  events: Schema.Array(ApprovalEventType),
  active: Schema.Boolean,
  created_at: TimestampFromDate,
  created_by_id: KeyId,
  created_by_name: Schema.String
})
export type EndpointRow = typeof EndpointRow.Type

/** Where a sealed column of an endpoint belongs. */
export const endpointPlace = (org_id: OrgId, endpoint_id: EndpointId, column: "url" | "secret"): Place => ({
  org_id,
  table: "notification_endpoints",
  row_id: endpoint_id,
  column
})

/** The organization's endpoints, newest first. There are 50 at most. */
export const endpointsOf = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, org_id: OrgId) {
  const rows = yield* sql`
    SELECT org_id, endpoint_id, url, url_hint, secret, events, active, created_at, created_by_id, created_by_name
    FROM notification_endpoints
    WHERE org_id = ${org_id}
    ORDER BY endpoint_id DESC
  `
  return yield* Schema.decodeUnknownEffect(Schema.Array(EndpointRow))(rows)
})

/** How many endpoints an organization has. */
export const countEndpoints = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, org_id: OrgId) {
  const rows = yield* sql<{ readonly count: number }>`
    SELECT count(*)::int AS count
    FROM notification_endpoints
    WHERE org_id = ${org_id}
  `
  return rows[0]?.count ?? 0
})

/** Writes a new endpoint. */
export const insertEndpoint = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, row: EndpointRow) {
  const values = yield* Schema.encodeEffect(EndpointRow)(row)
  yield* sql`INSERT INTO notification_endpoints ${sql.insert(values)}`
})

/** Removes an endpoint; whether there was one. */
export const deleteEndpoint = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  endpoint_id: EndpointId
) {
  const rows = yield* sql`
    DELETE FROM notification_endpoints
    WHERE org_id = ${org_id}
      AND endpoint_id = ${endpoint_id}
    RETURNING 1 AS removed
  `
  return rows.length > 0
})

const Subscriber = Schema.Struct({ endpoint_id: EndpointId, events: Schema.Array(ApprovalEventType) })

/** The active endpoints that subscribed to one of these event types. */
export const subscribersOf = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  types: ReadonlyArray<ApprovalEventType>
) {
  const rows = yield* sql`
    SELECT endpoint_id, events
    FROM notification_endpoints
    WHERE org_id = ${org_id}
      AND active
      AND events && ${[...types]}::text[]
    ORDER BY endpoint_id
  `
  return yield* Schema.decodeUnknownEffect(Schema.Array(Subscriber))(rows)
})

/** An event as it is written: `body` is what will be signed, byte for byte. */
export interface EventRow {
  readonly org_id: OrgId
  readonly event_id: EventId
  readonly type: ApprovalEventType
  readonly approval_id: string
  readonly body: Uint8Array
  readonly occurred_at: Date
}

/** Writes events. */
export const insertEvents = (sql: SqlClient.SqlClient, events: Arr.NonEmptyReadonlyArray<EventRow>) =>
  sql`INSERT INTO approval_events ${sql.insert(Arr.map(events, (event) => ({ ...event })))}`
