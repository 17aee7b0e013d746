import { Array as Arr, Effect, Option, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { lockOnNode } from "../../store/Cluster.ts"
import { ApprovalEventType, type WebhookEventType } from "../../../domain/approvals/ApprovalEvent.ts"
import { DeliveryId, EndpointId, type EventId, KeyId, OrgId } from "../../../domain/Ids.ts"
import type { Actor } from "../../../domain/identity/Principal.ts"
import { type Timestamp, TimestampFromDate, toDate } from "../../../domain/Time.ts"
import { byteaArray, textArray, timestamptzArray } from "../../store/pgArrays.ts"
import { hasRow, rowsOf } from "../../store/rows.ts"
import type { Place } from "../../secrets/SecretBox.ts"
import { raiseSecretsVersion } from "../../secrets/secretsVersion.ts"

/** A row of `notification_endpoints`; URL and secret are sealed. */
export const EndpointRow = Schema.Struct({
  org_id: OrgId,
  endpoint_id: EndpointId,
  url: Schema.Uint8Array,
  url_hint: Schema.String,
  description: Schema.NullOr(Schema.String),
  secret: Schema.Uint8Array,
  events: Schema.Array(ApprovalEventType),
  active: Schema.Boolean,
  public_signature: Schema.Boolean,
  disabled_at: Schema.NullOr(TimestampFromDate),
  disabled_by_id: Schema.NullOr(KeyId),
  disabled_by_name: Schema.NullOr(Schema.String),
  disabled_by_delivery: Schema.NullOr(DeliveryId),
  verified_at: Schema.NullOr(TimestampFromDate),
  created_at: TimestampFromDate,
  created_by_id: KeyId,
  created_by_name: Schema.String
})
export type EndpointRow = typeof EndpointRow.Type

const endpointRows = rowsOf(EndpointRow)

/** The columns of an {@link EndpointRow}. */
const columns = (sql: SqlClient.SqlClient) =>
  sql.literal(
    "org_id, endpoint_id, url, url_hint, description, secret, events, active, public_signature, disabled_at, disabled_by_id, disabled_by_name, disabled_by_delivery, verified_at, created_at, created_by_id, created_by_name"
  )

/** The place to which a sealed column of an endpoint is bound. */
export const endpointPlace = (
  org_id: OrgId,
  endpoint_id: EndpointId,
  column: "url" | "secret" | "previous_secret"
): Place => ({
  org_id,
  table: "notification_endpoints",
  row_id: endpoint_id,
  column
})

/** The organization's endpoints, newest first. `MAX_ENDPOINTS` limits their number. */
export const listEndpoints = (sql: SqlClient.SqlClient, org_id: OrgId) =>
  endpointRows.all(sql`
    SELECT ${columns(sql)}
    FROM notification_endpoints
    WHERE org_id = ${org_id}
    ORDER BY endpoint_id DESC
  `)

/** Whether the organization has the endpoint. */
export const endpointExists = (sql: SqlClient.SqlClient, org_id: OrgId, endpoint_id: EndpointId) =>
  hasRow(sql`
    SELECT 1 AS found
    FROM notification_endpoints
    WHERE org_id = ${org_id}
      AND endpoint_id = ${endpoint_id}
  `)

/**
 * Locks an endpoint's row (FOR KEY SHARE): until the transaction ends, it can be updated but not removed. Returns whether it is active (and
 * verified, with `onlyVerified`), and the version of its row; undefined if there is no such endpoint.
 */
export const lockEndpointForShare = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  endpoint_id: EndpointId,
  onlyVerified: boolean
) =>
  Effect.map(
    lockOnNode(
      sql,
      org_id,
      sql<{ readonly active: boolean; readonly version: string }>`
      SELECT active AND (verified_at IS NOT NULL OR NOT ${onlyVerified}::boolean) AS active, xmin::text AS version
      FROM notification_endpoints
      WHERE org_id = ${org_id}
        AND endpoint_id = ${endpoint_id}
      FOR KEY SHARE
    `
    ),
    (rows) => rows[0]
  )

/** How many endpoints an organization has. */
export const countEndpoints = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, org_id: OrgId) {
  const rows = yield* sql<{ readonly count: number }>`
    SELECT count(*)::int AS count
    FROM notification_endpoints
    WHERE org_id = ${org_id}
  `
  return rows[0]?.count ?? 0
})

/** Inserts an endpoint. */
export const insertEndpoint = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, row: EndpointRow) {
  const values = yield* Schema.encodeEffect(EndpointRow)(row)
  yield* sql`INSERT INTO notification_endpoints ${sql.insert(values)}`
  yield* raiseSecretsVersion(row.org_id)
})

/**
 * Updates an endpoint and returns its new row; none if there is no such endpoint. Disabling an active one records `by`
 * and `now`.
 */
export const updateEndpoint = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  endpoint_id: EndpointId,
  change: {
    readonly description?: string | null
    readonly events?: ReadonlyArray<ApprovalEventType>
    readonly active?: boolean
    readonly public_signature?: boolean
  },
  { actor, now }: { readonly actor: Actor; readonly now: Timestamp }
) {
  const disabled =
    change.active === undefined
      ? sql.literal("")
      : change.active
        ? sql.literal(
            ", active = true, disabled_at = NULL, disabled_by_id = NULL, disabled_by_name = NULL, disabled_by_delivery = NULL, unreported_entry_id = NULL"
          )
        : sql`,
          active = false,
          disabled_at = CASE WHEN active THEN ${toDate(now)}::timestamptz ELSE disabled_at END,
          disabled_by_id = CASE WHEN active THEN ${actor.id} ELSE disabled_by_id END,
          disabled_by_name = CASE WHEN active THEN ${actor.name} ELSE disabled_by_name END,
          disabled_by_delivery = CASE WHEN active THEN NULL ELSE disabled_by_delivery END`
  const row = yield* endpointRows.first(sql`
    UPDATE notification_endpoints
    SET
      public_signature = coalesce(${change.public_signature ?? null}::boolean, public_signature),
      events = coalesce(${change.events === undefined ? null : textArray(change.events)}::text[], events),
      description = CASE WHEN ${change.description !== undefined}::boolean THEN ${change.description ?? null}::text ELSE description END
      ${disabled}
    WHERE org_id = ${org_id}
      AND endpoint_id = ${endpoint_id}
    RETURNING ${columns(sql)}
  `)
  return Option.fromUndefinedOr(row)
})

/** Records that an endpoint answered a challenge and returns its new row; none if there is no such endpoint. */
export const updateVerified = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  endpoint_id: EndpointId,
  now: Timestamp
) {
  const row = yield* endpointRows.first(sql`
    UPDATE notification_endpoints
    SET verified_at = ${toDate(now)}
    WHERE org_id = ${org_id}
      AND endpoint_id = ${endpoint_id}
    RETURNING ${columns(sql)}
  `)
  return Option.fromUndefinedOr(row)
})

/** Returns the current sealed secret and locks its row (FOR NO KEY UPDATE) until the transaction ends. */
export const lockSecretForUpdate = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  endpoint_id: EndpointId
) {
  const rows = yield* lockOnNode(
    sql,
    org_id,
    sql<{ readonly secret: Uint8Array }>`
    SELECT secret
    FROM notification_endpoints
    WHERE org_id = ${org_id}
      AND endpoint_id = ${endpoint_id}
    FOR NO KEY UPDATE
  `
  )
  return Option.map(Arr.head(rows), (row) => row.secret)
})

/** Writes the current secret and the previous one, which signs until `previous_until`. */
export const updateSecrets = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  endpoint_id: EndpointId,
  secrets: { readonly current: Uint8Array; readonly previous: Uint8Array; readonly previous_until: Timestamp }
) =>
  Effect.andThen(
    sql`
      UPDATE notification_endpoints
      SET
        secret = ${secrets.current},
        previous_secret = ${secrets.previous},
        previous_secret_until = ${toDate(secrets.previous_until)}
      WHERE org_id = ${org_id}
        AND endpoint_id = ${endpoint_id}
    `,
    raiseSecretsVersion(org_id)
  )

/** Deletes an endpoint. Returns whether there was one. */
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

const Subscriber = Schema.Struct({
  endpoint_id: EndpointId,
  events: Schema.Array(ApprovalEventType),
  version: Schema.String
})
/** An active endpoint, the event types that it subscribes to, and the version of its row (`xmin`). */
export type Subscriber = typeof Subscriber.Type

const subscriberRows = rowsOf(Subscriber)

/**
 * The active endpoints that subscribe to any of these event types, each with the version of its row; with
 * `onlyVerified`, only endpoints that have answered a challenge.
 */
export const findSubscribers = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  types: ReadonlyArray<ApprovalEventType>,
  onlyVerified: boolean
) =>
  subscriberRows.all(sql`
    SELECT endpoint_id, events, xmin::text AS version
    FROM notification_endpoints
    WHERE org_id = ${org_id}
      AND active
      ${onlyVerified ? sql.literal("AND verified_at IS NOT NULL") : sql.literal("")}
      AND events && ${textArray(types)}
    ORDER BY endpoint_id
  `)

/** A row of `approval_events`. `body` is signed and sent byte for byte. */
export interface EventRow {
  readonly org_id: OrgId
  readonly event_id: EventId
  readonly type: WebhookEventType
  /** Null for a test event. */
  readonly approval_id: string | null
  readonly body: Uint8Array
  readonly occurred_at: Timestamp
}

/** Inserts events. */
export const insertEvents = (sql: SqlClient.SqlClient, events: Arr.NonEmptyReadonlyArray<EventRow>) =>
  sql`
    INSERT INTO approval_events (org_id, event_id, type, approval_id, body, occurred_at)
    SELECT *
    FROM unnest(
      ${textArray(events.map((event) => event.org_id))}::text[],
      ${textArray(events.map((event) => event.event_id))}::text[],
      ${textArray(events.map((event) => event.type))}::text[],
      ${textArray(events.map((event) => event.approval_id))}::text[],
      ${byteaArray(events.map((event) => event.body))}::bytea[],
      ${timestamptzArray(events.map((event) => event.occurred_at))}::timestamptz[]
    )
  `
