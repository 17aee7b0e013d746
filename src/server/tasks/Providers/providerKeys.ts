import { Effect, Redacted, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { isSameJson } from "../../../domain/json/CanonicalJson.ts"
import type { OrgId, TaskId } from "../../../domain/Ids.ts"
import { type Timestamp, toDate } from "../../../domain/Time.ts"
import { constantTimeEqual } from "../../secrets/constantTimeEqual.ts"
import { raiseSecretsVersion } from "../../secrets/secretsVersion.ts"
import type { Place, SecretBox } from "../../secrets/SecretBox.ts"

/** The credentials that a task sends to a base URL: its API key and extra headers. Both are secret. */
export interface ProviderCredentials {
  readonly api_key?: Redacted.Redacted | undefined
  readonly headers?: Readonly<Record<string, Redacted.Redacted>> | undefined
}

/** A column of `provider_keys` that is sealed. */
type SealedColumn = "api_key" | "headers"

/**
 * The place that a credential is sealed for. A task has one key and one set of headers per base URL, shared by all its releases, so that
 * they can be replaced.
 */
export const providerKeyPlace = (
  org_id: OrgId,
  task_id: TaskId,
  base_url: string,
  column: SealedColumn = "api_key"
): Place => ({ org_id, table: "provider_keys", row_id: `${task_id} ${base_url}`, column })

const HeadersJson = Schema.fromJsonString(Schema.Record(Schema.String, Schema.String))
const decodeHeaders = Schema.decodeUnknownEffect(HeadersJson)

const plainHeaders = (headers: Readonly<Record<string, Redacted.Redacted>>): Record<string, string> =>
  Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [name.toLowerCase(), Redacted.value(value)])
  )

/** Seals and stores a task's credentials for a base URL. Replaces the given ones; no headers remove the stored ones. */
export const upsertProviderKey = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  box: SecretBox["Service"],
  org_id: OrgId,
  task_id: TaskId,
  base_url: string,
  { api_key, headers }: ProviderCredentials,
  now: Timestamp
) {
  if (api_key === undefined && headers === undefined) return
  const place = (column: SealedColumn) => providerKeyPlace(org_id, task_id, base_url, column)
  const key = api_key === undefined ? null : yield* box.seal(place("api_key"), api_key)
  const isWithoutHeaders = headers === undefined || Object.keys(headers).length === 0
  const sealedHeaders = isWithoutHeaders
    ? null
    : yield* box.seal(place("headers"), Redacted.make(JSON.stringify(plainHeaders(headers))))
  yield* sql`
    INSERT INTO provider_keys AS stored (org_id, task_id, base_url, api_key, headers, updated_at)
    VALUES (${org_id}, ${task_id}, ${base_url}, ${key}::bytea, ${sealedHeaders}::bytea, ${toDate(now)})
    ON CONFLICT (org_id, task_id, base_url) DO UPDATE
    SET
      api_key = coalesce(excluded.api_key, stored.api_key),
      headers = CASE WHEN ${headers !== undefined} THEN excluded.headers ELSE stored.headers END,
      updated_at = excluded.updated_at
  `
  yield* raiseSecretsVersion(org_id)
})

/** Finds and unseals the task's credentials for a base URL. The names of the headers are in lower case. */
export const findProviderKey = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  box: SecretBox["Service"],
  org_id: OrgId,
  task_id: TaskId,
  base_url: string
) {
  const [row] = yield* sql<{ readonly api_key: Uint8Array | null; readonly headers: Uint8Array | null }>`
    SELECT api_key, headers
    FROM provider_keys
    WHERE org_id = ${org_id}
      AND task_id = ${task_id}
      AND base_url = ${base_url}
  `
  const unseal = (column: SealedColumn) => {
    const sealed = row?.[column] ?? null
    return sealed === null
      ? Effect.succeed(undefined)
      : box.unseal(providerKeyPlace(org_id, task_id, base_url, column), sealed)
  }
  const api_key = yield* unseal("api_key")
  const text = yield* unseal("headers")
  const headers = text === undefined ? {} : yield* decodeHeaders(Redacted.value(text))
  return {
    api_key,
    headers: Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, Redacted.make(value)]))
  }
}, Effect.orDie)

/** The stored credentials that differ from the requested ones. */
export type DifferentCredential = "api_key" | "headers"

/**
 * Stores a task's credentials for a base URL if it has none. Returns which of them the task has already with another value; then nothing is
 * stored. The caller has locked the task's row.
 */
export const insertProviderKey = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  box: SecretBox["Service"],
  org_id: OrgId,
  task_id: TaskId,
  base_url: string,
  given: ProviderCredentials,
  now: Timestamp
) {
  const stored = yield* findProviderKey(sql, box, org_id, task_id, base_url)
  const isOtherKey =
    given.api_key !== undefined &&
    stored.api_key !== undefined &&
    !constantTimeEqual(Redacted.value(stored.api_key), Redacted.value(given.api_key))
  const isOtherHeaders =
    given.headers !== undefined &&
    Object.keys(stored.headers).length > 0 &&
    !isSameJson(plainHeaders(stored.headers), plainHeaders(given.headers))
  const different: ReadonlyArray<DifferentCredential> = [
    ...(isOtherKey ? (["api_key"] as const) : []),
    ...(isOtherHeaders ? (["headers"] as const) : [])
  ]
  if (different.length > 0) return different
  yield* upsertProviderKey(
    sql,
    box,
    org_id,
    task_id,
    base_url,
    {
      api_key: stored.api_key === undefined ? given.api_key : undefined,
      // No headers change nothing: the task has none.
      headers:
        given.headers === undefined || Object.keys(given.headers).length === 0 ? undefined : given.headers
    },
    now
  )
  return different
})
