import { Effect, Schema } from "effect"
import { IpNetwork } from "effect/net"
import type { SqlClient } from "effect/sql"
import type { ApiKeyQuery, KeyOrder, KeyStatus } from "../../../api/ApiKeys.ts"
import { type ApiKey, RevocationReason } from "../../../domain/identity/ApiKey.ts"
import {
  apiKeyDigest,
  apiKeyHint,
  digestsEqual,
  type ParsedApiKey,
  PublicId
} from "../../../domain/identity/ApiKeyFormat.ts"
import { KeyId, OrgId } from "../../../domain/Ids.ts"
import { actorOf, type Principal } from "../../../domain/identity/Principal.ts"
import { Preset, Scope } from "../../../domain/identity/Scope.ts"
import { type Timestamp, TimestampFromDate, toDate } from "../../../domain/Time.ts"
import { joinConfirmation } from "../EmailAddresses.ts"
import { grantedScopes } from "../grantedScopes.ts"
import { identityMakers } from "../identityMakers.ts"
import { keyMakers } from "../keyMakers.ts"
import type { KeyRef } from "../KeyRef.ts"
import { containsText, equalsName, foldCase } from "../../store/foldCase.ts"
import { textArray } from "../../store/pgArrays.ts"
import { rowLimit } from "../../store/Pagination.ts"
import { countOf, rowsOf } from "../../store/rows.ts"

/** An SQL condition on `api_keys`: the row stands for a person who signs in with an identity provider, not for a key. */
const isPerson = (sql: SqlClient.SqlClient) => sql.literal(PERSON)

const PERSON = `EXISTS (
  SELECT 1
  FROM people
  WHERE people.org_id = api_keys.org_id
    AND people.key_id = api_keys.key_id
)`

/** A row of `api_keys` without the digest. */
export const KeyRow = Schema.Struct({
  org_id: OrgId,
  key_id: KeyId,
  public_id: PublicId,
  name: Schema.String,
  preset: Schema.NullOr(Preset),
  scopes: Schema.Array(Scope),
  groups: Schema.Array(Schema.String),
  email: Schema.NullOr(Schema.String),
  created_at: TimestampFromDate,
  created_by_id: Schema.NullOr(KeyId),
  created_by_name: Schema.NullOr(Schema.String),
  expires_at: Schema.NullOr(TimestampFromDate),
  revoked_at: Schema.NullOr(TimestampFromDate),
  revocation_reason: Schema.NullOr(RevocationReason),
  /** Canonical CIDR notation. */
  allowed_networks: Schema.NullOr(Schema.Array(Schema.String))
})
export type KeyRow = typeof KeyRow.Type

/** A key's row with its last use and the confirmation of its address. */
const ListedRow = Schema.Struct({
  ...KeyRow.fields,
  last_used_at: Schema.NullOr(TimestampFromDate),
  email_verified_at: Schema.NullOr(TimestampFromDate)
})
const listedRows = rowsOf(ListedRow)

/** A row as the API returns it. `verifiedOnly`: addresses must be verified. */
export const toApiKey = (row: typeof ListedRow.Type, verifiedOnly: boolean): ApiKey => ({
  id: row.key_id,
  name: row.name,
  hint: apiKeyHint(row.public_id),
  preset: row.preset,
  scopes: row.scopes,
  groups: row.groups,
  email: row.email,
  email_verified_at: row.email_verified_at,
  email_awaits_verification: verifiedOnly && row.email !== null && row.email_verified_at === null,
  created_at: row.created_at,
  created_by: actorOf(row.created_by_id, row.created_by_name),
  expires_at: row.expires_at,
  revoked_at: row.revoked_at,
  revocation_reason: row.revocation_reason,
  allowed_networks: row.allowed_networks,
  last_used_at: row.last_used_at
})

/** An existing key, reduced to what verification needs, because the cache holds one for each key in use. */
export interface VerifiedKey {
  readonly principal: Principal
  /** Epoch milliseconds. */
  readonly expires_at: number | null
  readonly revoked_at: number | null
  /** The networks that requests may come from; null: anywhere. */
  readonly networks: ReadonlyArray<IpNetwork.IpNetwork> | null
}

const verifiedRows = rowsOf(
  Schema.Struct({
    org_id: OrgId,
    key_id: KeyId,
    name: Schema.String,
    scopes: Schema.Array(Scope),
    groups: Schema.Array(Schema.String),
    key_makers: Schema.Array(KeyId),
    makers: Schema.Array(KeyId),
    expires_at: Schema.NullOr(Schema.Date),
    revoked_at: Schema.NullOr(Schema.Date),
    allowed_networks: Schema.NullOr(Schema.Array(Schema.String)),
    digest: Schema.Uint8Array
  })
)

/** The key with this public id, if its SHA-256 digest equals `digest` (constant-time comparison); else null. */
export const findKey = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  public_id: string,
  digest: Uint8Array
) {
  const row = yield* verifiedRows.first(sql`
    SELECT org_id, key_id, name, ${grantedScopes(sql)} AS scopes, groups, ${keyMakers(sql)} AS key_makers,
      ${identityMakers(sql)} AS makers, expires_at, revoked_at, allowed_networks, digest
    FROM api_keys
    WHERE public_id = ${public_id}
  `)
  if (row === undefined || !digestsEqual(row.digest, digest)) return null
  const key: VerifiedKey = {
    principal: {
      org_id: row.org_id,
      actor: { id: row.key_id, name: row.name },
      scopes: new Set(row.scopes),
      groups: row.groups,
      keyMakers: row.key_makers,
      makers: row.makers
    },
    expires_at: row.expires_at?.getTime() ?? null,
    revoked_at: row.revoked_at?.getTime() ?? null,
    networks: row.allowed_networks?.map(IpNetwork.fromStringUnsafe) ?? null
  }
  return key
})

/**
 * Inserts a key. With `followsPreset` its scopes are not stored: it has all scopes of its preset, also scopes that a later version of
 * the service adds to the preset.
 */
export const insertKey = (
  sql: SqlClient.SqlClient,
  row: KeyRow,
  digest: Uint8Array,
  followsPreset: boolean
) =>
  Effect.gen(function* () {
    const { scopes, ...values } = yield* Schema.encodeEffect(KeyRow)(row)
    yield* sql`INSERT INTO api_keys ${sql.insert({ ...values, digest, scopes: followsPreset ? null : scopes })}`
  })

const selectListed = (sql: SqlClient.SqlClient, now: Timestamp) => sql`
  SELECT
    org_id, key_id, public_id, name, preset, ${grantedScopes(sql)} AS scopes, groups, email, created_at, created_by_id,
    created_by_name, expires_at, revoked_at, revocation_reason, allowed_networks, last_used_at, confirmation.verified_at AS email_verified_at
  FROM api_keys
    LEFT JOIN api_key_uses USING (org_id, key_id)
    ${joinConfirmation(sql, now)}`

/** The organization's keys that match a query, from the one after its cursor. An organization's stored keys are limited. */
export const listKeys = (sql: SqlClient.SqlClient, org_id: OrgId, query: ApiKeyQuery, now: Timestamp) => {
  const { cursor, name, order = "newest", status } = query
  const matches = [
    sql`org_id = ${org_id}`,
    sql`NOT ${isPerson(sql)}`,
    ...(status === undefined ? [] : [hasStatus(sql, status, now)]),
    ...(name === undefined ? [] : [containsText(sql, "name", name)]),
    ...(cursor === undefined ? [] : [isAfterCursor(sql, order, { org_id, key_id: cursor })])
  ]
  return listedRows.all(sql`
    ${selectListed(sql, now)}
    WHERE ${sql.and(matches)}
    ORDER BY ${sql.literal(ORDER_BY[order])}
    LIMIT ${rowLimit(query)}
  `)
}

/** The text by which keys are sorted, and the time of the last use: keys that were never used come last. */
const NAME = foldCase("name")
const LAST_USE = "coalesce(last_used_at, '-infinity'::timestamptz)"

const ORDER_BY: Record<KeyOrder, string> = {
  newest: "key_id DESC",
  name: `${NAME}, key_id`,
  last_used: `${LAST_USE} DESC, key_id DESC`
}

/** The condition that a key comes after another one, which may have been renamed or used since its page was read. */
const isAfterCursor = (sql: SqlClient.SqlClient, order: KeyOrder, { key_id, org_id }: KeyRef) => {
  switch (order) {
    case "newest":
      return sql`key_id < ${key_id}`
    case "name":
      return sql`(${sql.literal(NAME)}, key_id) > (
        SELECT ${sql.literal(NAME)}, key_id FROM api_keys WHERE org_id = ${org_id} AND key_id = ${key_id}
      )`
    case "last_used":
      return sql`(${sql.literal(LAST_USE)}, key_id) < (
        SELECT ${sql.literal(LAST_USE)}, key_id
        FROM api_keys LEFT JOIN api_key_uses USING (org_id, key_id)
        WHERE org_id = ${org_id} AND key_id = ${key_id}
      )`
  }
}

const hasStatus = (sql: SqlClient.SqlClient, status: KeyStatus, now: Timestamp) => {
  switch (status) {
    case "active":
      return usable(sql, now)
    case "expired":
      return sql`(revoked_at IS NULL AND expires_at <= ${toDate(now)}::timestamptz)`
    case "revoked":
      return sql`revoked_at IS NOT NULL`
  }
}

/** Changes a key within the caller's transaction. */
export const updateKey = (
  sql: SqlClient.SqlClient,
  { key_id, org_id }: KeyRef,
  { email, name }: Pick<KeyRow, "email" | "name">
) => sql`
  UPDATE api_keys
  SET name = ${name}, email = ${email}
  WHERE org_id = ${org_id}
    AND key_id = ${key_id}
`

/** One key; undefined if the organization has no such key. */
export const findListedKey = (sql: SqlClient.SqlClient, { key_id, org_id }: KeyRef, now: Timestamp) =>
  listedRows.first(sql`
    ${selectListed(sql, now)}
    WHERE org_id = ${org_id}
      AND key_id = ${key_id}
      AND NOT ${isPerson(sql)}
  `)

/** The number of the organization's keys that are neither revoked nor expired, counted up to `limit`. */
export const countUsableKeys = (sql: SqlClient.SqlClient, org_id: OrgId, now: Timestamp, limit: number) =>
  countOf(sql`
    SELECT count(*)::int AS count
    FROM (
      SELECT 1
      FROM api_keys
      WHERE org_id = ${org_id}
        AND revoked_at IS NULL
        AND (expires_at IS NULL OR expires_at > ${toDate(now)})
        AND NOT ${isPerson(sql)}
      LIMIT ${limit}
    ) AS usable_keys
  `)

/** The number of the organization's keys, revoked and expired ones too, counted up to `limit`. */
export const countStoredKeys = (sql: SqlClient.SqlClient, org_id: OrgId, limit: number) =>
  countOf(sql`
    SELECT count(*)::int AS count
    FROM (
      SELECT 1 FROM api_keys WHERE org_id = ${org_id} AND NOT ${isPerson(sql)} LIMIT ${limit}
    ) AS stored_keys
  `)

const makerRows = rowsOf(
  Schema.Struct({
    scopes: Schema.Array(Scope),
    groups: Schema.Array(Schema.String),
    expires_at: Schema.NullOr(TimestampFromDate),
    revoked: Schema.Boolean,
    generation: Schema.Number,
    allowed_networks: Schema.NullOr(Schema.Array(Schema.String))
  })
)

/** What limits the keys that a key may create; undefined if the key was deleted. */
export const findMaker = (sql: SqlClient.SqlClient, { key_id, org_id }: KeyRef) =>
  makerRows.first(sql`
    SELECT ${grantedScopes(sql)} AS scopes, groups, expires_at, revoked_at IS NOT NULL AS revoked,
      cardinality(${keyMakers(sql)}) AS generation, allowed_networks
    FROM api_keys
    WHERE org_id = ${org_id}
      AND key_id = ${key_id}
  `)

/** Whether a usable key of the organization, other than `except`, has a name that looks like this one. */
export const isNameInUse = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  name: string,
  now: Timestamp,
  except?: KeyId
) {
  const rows = yield* sql<{ readonly found: boolean }>`
    SELECT EXISTS (
      SELECT 1
      FROM api_keys
      WHERE org_id = ${org_id}
        AND ${equalsName(sql, "name", name)}
        ${except === undefined ? sql.literal("") : sql`AND key_id <> ${except}`}
        AND ${usable(sql, now)}
    ) AS found
  `
  return rows[0]?.found === true
})

/**
 * Whether the organization has a usable key with all of `scopes`: among `revoked`, and apart from them. Together they tell whether revoking
 * these keys would leave it without one.
 */
export const findAdminKeys = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  scopes: ReadonlyArray<Scope>,
  revoked: ReadonlyArray<KeyId>,
  now: Timestamp
) {
  const rows = yield* sql<{ readonly ended: boolean; readonly left: boolean }>`
    WITH admin AS (
      SELECT key_id = ANY (${textArray(revoked)}) AS ends
      FROM api_keys
      WHERE org_id = ${org_id}
        AND ${grantedScopes(sql)} @> ${textArray(scopes)}
        AND ${usable(sql, now)}
        AND NOT ${isPerson(sql)}
    )
    SELECT EXISTS (SELECT 1 FROM admin WHERE ends) AS ended, EXISTS (SELECT 1 FROM admin WHERE NOT ends) AS left
  `
  return { revokesAdmin: rows[0]?.ended === true, keepsAdmin: rows[0]?.left === true }
})

const usable = (sql: SqlClient.SqlClient, now: Timestamp) =>
  sql`revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ${toDate(now)}::timestamptz)`

const lineRows = rowsOf(
  Schema.Struct({
    key_id: KeyId,
    revoked: Schema.Boolean,
    is_person: Schema.Boolean,
    scopes: Schema.Array(Scope),
    groups: Schema.Array(Schema.String)
  })
)

/** A key or a person, and all keys that it created, directly or through keys that they created. Empty if the organization has none. */
export const findKeyWithMade = (sql: SqlClient.SqlClient, { key_id, org_id }: KeyRef) =>
  lineRows.all(sql`
    WITH RECURSIVE line AS (
      SELECT key_id
      FROM api_keys
      WHERE org_id = ${org_id}
        AND key_id = ${key_id}
      UNION
      SELECT made.key_id
      FROM line
        JOIN api_keys AS made ON made.org_id = ${org_id} AND made.created_by_id = line.key_id
    )
    SELECT key_id, revoked_at IS NOT NULL AS revoked, ${isPerson(sql)} AS is_person, ${grantedScopes(sql)} AS scopes, groups
    FROM line
      JOIN api_keys USING (key_id)
    WHERE org_id = ${org_id}
    ORDER BY key_id
  `)

/** Replaces a key's rights by fewer ones, within the caller's transaction. */
export const updateRights = (
  sql: SqlClient.SqlClient,
  { key_id, org_id }: KeyRef,
  { groups, scopes }: Pick<KeyRow, "groups" | "scopes">,
  now: Timestamp
) => sql`
  UPDATE api_keys
  SET scopes = ${textArray(scopes)}::text[], groups = ${textArray(groups)}::text[], rights_changed_at = ${toDate(now)}
  WHERE org_id = ${org_id}
    AND key_id = ${key_id}
`

/** Revokes keys within the caller's transaction. */
export const revokeKeys = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  keys: ReadonlyArray<KeyId>,
  now: Timestamp,
  reason: RevocationReason
) => sql`
  UPDATE api_keys
  SET revoked_at = ${toDate(now)}, revocation_reason = ${reason}
  WHERE org_id = ${org_id}
    AND key_id = ANY (${textArray(keys)})
    AND revoked_at IS NULL
`

const endedRows = rowsOf(Schema.Struct({ key_id: KeyId }))

/** Returns the ids of the revoked, expired and deleted keys among `keys`, and of the keys whose rights have changed since a time. */
export const findEndedKeys = (
  sql: SqlClient.SqlClient,
  keys: ReadonlyArray<KeyRef>,
  now: Timestamp,
  changedSince: Timestamp
) =>
  endedRows
    .all(
      sql`
        SELECT key_id
        FROM unnest(
          ${textArray(keys.map(({ org_id }) => org_id))},
          ${textArray(keys.map(({ key_id }) => key_id))}
        ) AS in_use (org_id, key_id)
        LEFT JOIN api_keys USING (org_id, key_id)
        WHERE api_keys.digest IS NULL
          OR api_keys.revoked_at IS NOT NULL
          OR api_keys.expires_at <= ${toDate(now)}::timestamptz
          OR api_keys.rights_changed_at >= ${toDate(changedSince)}::timestamptz
      `
    )
    .pipe(Effect.map((rows) => rows.map(({ key_id }) => key_id)))

const digestRows = rowsOf(
  Schema.Struct({ org_id: OrgId, key_id: KeyId, public_id: PublicId, digest: Schema.Uint8Array })
)

/** The usable keys among these texts, each once, in one statement. */
export const findUsableKeys = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  keys: ReadonlyArray<ParsedApiKey>,
  now: Timestamp
) {
  const rows = yield* digestRows.all(sql`
    SELECT org_id, key_id, public_id, digest
    FROM api_keys
    WHERE public_id = ANY (${textArray(keys.map(({ publicId }) => publicId))})
      AND ${usable(sql, now)}
  `)
  const byPublicId = Map.groupBy(keys, ({ publicId }) => publicId)
  return rows.filter(({ digest, public_id }) =>
    byPublicId.get(public_id)?.some(({ key }) => digestsEqual(digest, apiKeyDigest(key)))
  )
})
