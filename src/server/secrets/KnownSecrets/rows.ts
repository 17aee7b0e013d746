import { Effect, Redacted, Schema } from "effect"
import type { SqlClient, Statement } from "effect/sql"
import { EndpointId, type OrgId, TaskId, TelemetryDestinationId } from "../../../domain/Ids.ts"
import { endpointPlace } from "../../notifications/Notifications/rows.ts"
import { providerKeyPlace } from "../../tasks/Providers/providerKeys.ts"
import type { SecretBox } from "../SecretBox.ts"
import { unsealAddress } from "../../telemetry/Telemetry/sendSpans.ts"

/**
 * Provider keys of an organization that are looked for, those that were set last: one for each of the tasks that it may have. Past that
 * tasks have keys for base URLs that they do not name any more.
 */
const MAX_PROVIDER_KEYS = 10_000

/**
 * An expression whose text changes with each commit that makes, renews or replaces one of the organization's secrets (the store counts
 * them): read before the secrets, it is never newer than they are. `org_id` is its id, or the column that holds it.
 */
export const secretsVersion = (sql: SqlClient.SqlClient, org_id: OrgId | Statement.Fragment) => sql`
  coalesce((SELECT change_count FROM secret_changes WHERE org_id = ${org_id}), 0)::text
`

/** That text, asked for by itself. */
export const readSecretsVersion = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, org_id: OrgId) {
  const rows = yield* sql<{ readonly state: string }>`SELECT ${secretsVersion(sql, org_id)} AS state`
  return rows[0]?.state ?? ""
})

const decodeEndpoints = Schema.decodeUnknownEffect(
  Schema.Array(
    Schema.Struct({
      endpoint_id: EndpointId,
      secret: Schema.Uint8Array,
      previous_secret: Schema.NullOr(Schema.Uint8Array)
    })
  )
)
const decodeProviderKeys = Schema.decodeUnknownEffect(
  Schema.Array(Schema.Struct({ task_id: TaskId, base_url: Schema.String, api_key: Schema.Uint8Array }))
)

const decodeDestinations = Schema.decodeUnknownEffect(
  Schema.Array(
    Schema.Struct({
      destination_id: TelemetryDestinationId,
      url: Schema.Uint8Array,
      headers: Schema.Uint8Array
    })
  )
)

/** The organization's secrets, opened. */
export const readSecrets = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  box: SecretBox["Service"],
  org_id: OrgId
) {
  const endpoints = yield* sql`
    SELECT endpoint_id, secret, previous_secret
    FROM notification_endpoints
    WHERE org_id = ${org_id}
  `.pipe(Effect.flatMap(decodeEndpoints))
  const keys = yield* sql`
    SELECT task_id, base_url, api_key
    FROM provider_keys
    WHERE org_id = ${org_id}
    ORDER BY updated_at DESC
    LIMIT ${MAX_PROVIDER_KEYS}
  `.pipe(Effect.flatMap(decodeProviderKeys))
  const destinations = yield* sql`
    SELECT destination_id, url, headers
    FROM telemetry_destinations
    WHERE org_id = ${org_id}
  `.pipe(Effect.flatMap(decodeDestinations))
  const opened: Array<Redacted.Redacted> = []
  for (const { endpoint_id, previous_secret, secret } of endpoints) {
    opened.push(yield* box.unseal(endpointPlace(org_id, endpoint_id, "secret"), secret))
    if (previous_secret !== null) {
      opened.push(yield* box.unseal(endpointPlace(org_id, endpoint_id, "previous_secret"), previous_secret))
    }
  }
  for (const { api_key, base_url, task_id } of keys) {
    opened.push(yield* box.unseal(providerKeyPlace(org_id, task_id, base_url), api_key))
  }
  for (const { destination_id, headers, url } of destinations) {
    const address = yield* unsealAddress(box, org_id, destination_id, { headers, url })
    opened.push(...Object.values(address.headers).map((header) => Redacted.make(header)))
  }
  return opened
})
