import { Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import type { ApiKey } from "../../../domain/identity/ApiKey.ts"
import { apiKeyHint, digestsEqual, PublicId } from "../../../domain/identity/ApiKeyFormat.ts"
import { KeyId, OrgId } from "../../../domain/Ids.ts"
import type { Principal } from "../../../domain/identity/Principal.ts"
import { Preset, presetScopes, Scope } from "../../../domain/identity/Scope.ts"
import { type Timestamp, TimestampFromDate, toDate } from "../../../domain/Time.ts"
import { textArray } from "../../store/pgArrays.ts"
import { beforeCursor } from "../../store/Pagination.ts"

/** A key as the store holds it, without its digest. */
export const KeyRow = Schema.Struct({
  org_id: OrgId,
  key_id: KeyId,
  public_id: PublicId,
  name: Schema.String,
  preset: Schema.NullOr(Preset),
  scopes: Schema.Array(Scope),
  email: Schema.NullOr(Schema.String),
  created_at: TimestampFromDate,
  created_by_id: Schema.NullOr(KeyId),
  created_by_name: Schema.NullOr(Schema.String),
  expires_at: Schema.NullOr(TimestampFromDate),
  revoked_at: Schema.NullOr(TimestampFromDate)
})
export type KeyRow = typeof KeyRow.Type

/** The scopes of a key as `text[]`, for a statement over `api_keys`: its own, else its preset's. */
export const grantedScopes = (sql: SqlClient.SqlClient) => sql.literal(HELD_SCOPES)

const HELD_SCOPES = `coalesce(api_keys.scopes, CASE api_keys.preset ${Preset.literals
  .map((preset) => `WHEN '${preset}' THEN '{${presetScopes(preset).join(",")}}'::text[]`)
  .join(" ")} END)`

const decodeRows = Schema.decodeUnknownEffect(Schema.Array(KeyRow))

/** A key as it is listed. */
export const decodeKey = (row: KeyRow): ApiKey => ({
  id: row.key_id,
  name: row.name,
  hint: apiKeyHint(row.public_id),
  preset: row.preset,
  scopes: row.scopes,
  email: row.email,
  created_at: row.created_at,
  created_by: row.created_by_id === null ? null : { id: row.created_by_id, name: row.created_by_name ?? "" },
  expires_at: row.expires_at,
  revoked_at: row.revoked_at
})

/** What checking a key needs to know, kept small: one of these is remembered for each key in use. */
export interface VerifiedKey {
  readonly principal: Principal
  /** Epoch milliseconds. */
  readonly expires_at: number | null
  readonly revoked_at: number | null
}

const VerifiedRow = Schema.Struct({
  org_id: OrgId,
  key_id: KeyId,
  name: Schema.String,
  scopes: Schema.Array(Scope),
  expires_at: Schema.NullOr(Schema.Date),
  revoked_at: Schema.NullOr(Schema.Date),
  digest: Schema.Uint8Array
})

/** The key of this public id, if its SHA-256 digest is this one; else null. Compared in constant time. */
export const findKey = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  public_id: string,
  digest: Uint8Array
) {
  const rows = yield* sql`
    SELECT org_id, key_id, name, ${grantedScopes(sql)} AS scopes, expires_at, revoked_at, digest
    FROM api_keys
    WHERE public_id = ${public_id}
  `
  const [row] = yield* Schema.decodeUnknownEffect(Schema.Array(VerifiedRow))(rows)
  if (row === undefined || !digestsEqual(row.digest, digest)) return null
  const known: VerifiedKey = {
    principal: {
      org_id: row.org_id,
      actor: { id: row.key_id, name: row.name },
      scopes: new Set(row.scopes)
    },
    expires_at: row.expires_at?.getTime() ?? null,
    revoked_at: row.revoked_at?.getTime() ?? null
  }
  return known
})

/** Writes a new key. With `followsPreset` its scopes are not written: it holds those of its preset, also such as are added later. */
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

/** Keys of an organization, newest first. */
export const listKeys = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  limit: number,
  before: KeyId | undefined
) {
  const rows = yield* sql`
    SELECT
      org_id, key_id, public_id, name, preset, ${grantedScopes(sql)} AS scopes, email, created_at, created_by_id, created_by_name,
      expires_at, revoked_at
    FROM api_keys
    WHERE org_id = ${org_id}
      ${beforeCursor(sql, "key_id", before)}
    ORDER BY key_id DESC
    LIMIT ${limit}
  `
  return yield* decodeRows(rows)
})

/** The organization's keys that hold every scope and work: at most two are told, which is enough to know the last. */
export const usableAdminKeys = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  scopes: ReadonlyArray<Scope>,
  now: Timestamp
) {
  const rows = yield* sql<{ readonly key_id: string }>`
    SELECT key_id
    FROM api_keys
    WHERE org_id = ${org_id}
      AND ${grantedScopes(sql)} @> ${textArray(scopes)}
      AND revoked_at IS NULL
      AND (expires_at IS NULL OR expires_at > ${toDate(now)})
    LIMIT 2
  `
  return rows.map((row) => row.key_id)
})

/** Revokes a key, once: whether it was not before; undefined where the organization has no such key. Call it in a transaction. */
export const revokeKey = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  key_id: KeyId,
  now: Timestamp
) {
  const rows = yield* sql<{ readonly revoked: boolean }>`
    SELECT revoked_at IS NOT NULL AS revoked
    FROM api_keys
    WHERE org_id = ${org_id}
      AND key_id = ${key_id}
    FOR NO KEY UPDATE
  `
  if (rows[0] === undefined) return undefined
  if (rows[0].revoked) return false
  yield* sql`
    UPDATE api_keys
    SET revoked_at = ${toDate(now)}
    WHERE org_id = ${org_id}
      AND key_id = ${key_id}
  `
  return true
})
