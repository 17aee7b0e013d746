import { Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { ConsoleSessionId, KeyId, type OrgId } from "../../../domain/Ids.ts"
import { Actor } from "../../../domain/identity/Principal.ts"
import { Scope } from "../../../domain/identity/Scope.ts"
import { type Timestamp, TimestampFromDate, toDate } from "../../../domain/Time.ts"
import type { PageRequest } from "../../../api/Pagination.ts"
import { grantedScopes } from "../../identity/grantedScopes.ts"
import { identityMakers } from "../../identity/identityMakers.ts"
import { keyMakers } from "../../identity/keyMakers.ts"
import type { KeyRef } from "../../identity/KeyRef.ts"
import { beforeCursor, rowLimit } from "../../store/Pagination.ts"
import { rowsOf } from "../../store/rows.ts"
import type { SessionToken } from "./sessionToken.ts"

/** The most open sessions of one key: signing in once more ends the oldest. */
export const MAX_SESSIONS_PER_KEY = 20

/** The most expired sessions that one sign-in deletes, which bounds the table without a background worker. */
const EXPIRED_BATCH = 100

/** A session with its key and organization. */
export const SessionRow = Schema.Struct({
  session_id: ConsoleSessionId,
  last_active_at: TimestampFromDate,
  expires_at: TimestampFromDate,
  key_id: KeyId,
  name: Schema.String,
  scopes: Schema.Array(Scope),
  groups: Schema.Array(Schema.String),
  key_makers: Schema.Array(KeyId),
  makers: Schema.Array(KeyId),
  allowed_networks: Schema.NullOr(Schema.Array(Schema.String)),
  organization: Schema.String
})

const sessionRows = rowsOf(SessionRow)

const signInRows = rowsOf(
  Schema.Struct({
    id: ConsoleSessionId,
    key_id: KeyId,
    name: Schema.String,
    scopes: Schema.Array(Scope),
    groups: Schema.Array(Schema.String),
    created_at: TimestampFromDate,
    last_active_at: TimestampFromDate,
    expires_at: TimestampFromDate,
    browser: Schema.NullOr(Schema.String),
    address: Schema.NullOr(Schema.String)
  })
)

const digestRows = rowsOf(Schema.Struct({ digest: Schema.String, key_id: KeyId }))

const actorRows = rowsOf(Actor)

/** The condition that a session is open, and its key usable. */
const isOpen = (sql: SqlClient.SqlClient, now: Timestamp, idleSince: Date) => sql`
  console_sessions.expires_at > ${toDate(now)}::timestamptz
  AND last_active_at > ${idleSince}::timestamptz
  AND api_keys.revoked_at IS NULL
  AND (api_keys.expires_at IS NULL OR api_keys.expires_at > ${toDate(now)}::timestamptz)
`

/** The open session of a token. */
export const findSession = (sql: SqlClient.SqlClient, token: SessionToken, now: Timestamp, idleSince: Date) =>
  sessionRows
    .first(
      sql`
        SELECT session_id, console_sessions.expires_at, last_active_at, api_keys.key_id, api_keys.name,
          ${grantedScopes(sql)} AS scopes, api_keys.groups, ${keyMakers(sql)} AS key_makers,
          ${identityMakers(sql)} AS makers, api_keys.allowed_networks, organizations.name AS organization
        FROM console_sessions
          JOIN api_keys USING (org_id, key_id)
          JOIN organizations USING (org_id)
        WHERE org_id = ${token.org_id}
          AND console_sessions.digest = ${token.digest}
          AND ${isOpen(sql, now, idleSince)}
      `
    )
    .pipe(Effect.orDie)

/** A page of open sessions, newest first. `key_id`: only of this key. */
export const listSessions = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  key_id: KeyId | undefined,
  request: PageRequest<ConsoleSessionId>,
  now: Timestamp,
  idleSince: Date
) =>
  signInRows
    .all(
      sql`
        SELECT session_id AS id, key_id, name, ${grantedScopes(sql)} AS scopes, groups, console_sessions.created_at,
          last_active_at, console_sessions.expires_at, browser, address
        FROM console_sessions
          JOIN api_keys USING (org_id, key_id)
        WHERE org_id = ${org_id}
          ${key_id === undefined ? sql.literal("") : sql`AND key_id = ${key_id}`}
          ${beforeCursor(sql, "session_id", request.cursor)}
          AND ${isOpen(sql, now, idleSince)}
        ORDER BY session_id DESC
        LIMIT ${rowLimit(request)}
      `
    )
    .pipe(Effect.orDie)

/** Inserts a session of a key, and returns nothing. */
export const insertSession = (
  sql: SqlClient.SqlClient,
  { digest, org_id }: SessionToken,
  session: {
    readonly session_id: ConsoleSessionId
    readonly key_id: KeyId
    readonly created_at: Timestamp
    readonly expires_at: Timestamp
    readonly provider_session: string | null
    readonly browser: string | null
    readonly address: string
  }
) => {
  const { address, browser, created_at, expires_at, key_id, provider_session, session_id } = session
  return sql`
    INSERT INTO console_sessions (
      org_id, digest, session_id, key_id, created_at, last_active_at, expires_at, provider_session, browser, address
    )
    VALUES (
      ${org_id}, ${digest}, ${session_id}, ${key_id}, ${toDate(created_at)}::timestamptz,
      ${toDate(created_at)}::timestamptz, ${toDate(expires_at)}::timestamptz,
      ${provider_session}::text, ${browser}::text, ${address}
    )
  `.pipe(Effect.orDie)
}

/** Writes that the user of a session is active. */
export const updateActivity = (sql: SqlClient.SqlClient, { digest, org_id }: SessionToken, now: Timestamp) =>
  Effect.orDie(sql`
    UPDATE console_sessions
    SET last_active_at = ${toDate(now)}::timestamptz
    WHERE org_id = ${org_id}
      AND digest = ${digest}
      AND last_active_at < ${toDate(now)}::timestamptz
  `)

/** Deletes a session. `key_id`: only if it is of this key. Returns its digest, in hexadecimal, and its key. */
export const deleteSession = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  session_id: ConsoleSessionId,
  key_id: KeyId | undefined
) =>
  digestRows
    .first(
      sql`
        DELETE FROM console_sessions
        WHERE org_id = ${org_id}
          AND session_id = ${session_id}
          ${key_id === undefined ? sql.literal("") : sql`AND key_id = ${key_id}`}
        RETURNING encode(digest, 'hex') AS digest, key_id
      `
    )
    .pipe(Effect.orDie)

/** Deletes the session of a token. Returns its key, if there was one. */
export const deleteByToken = (sql: SqlClient.SqlClient, { digest, org_id }: SessionToken) =>
  actorRows
    .first(
      sql`
        DELETE FROM console_sessions
        USING api_keys
        WHERE console_sessions.org_id = ${org_id}
          AND console_sessions.digest = ${digest}
          AND api_keys.org_id = console_sessions.org_id
          AND api_keys.key_id = console_sessions.key_id
        RETURNING api_keys.key_id AS id, api_keys.name
      `
    )
    .pipe(Effect.orDie)

/** Deletes some of the sessions that have expired or are idle. */
export const deleteExpired = (sql: SqlClient.SqlClient, org_id: OrgId, now: Timestamp, idleSince: Date) =>
  sql`
    DELETE FROM console_sessions
    WHERE org_id = ${org_id}
      AND digest IN (
        SELECT digest
        FROM console_sessions
        WHERE org_id = ${org_id}
          AND (expires_at <= ${toDate(now)}::timestamptz OR last_active_at <= ${idleSince}::timestamptz)
        -- On a cluster, each node chooses in its own copy.
        ORDER BY expires_at, digest
        LIMIT ${EXPIRED_BATCH}
      )
  `.pipe(Effect.orDie)

const endedRows = rowsOf(Schema.Struct({ digest: Schema.String }))

/** Makes room for one more session of the key. The lock keeps concurrent sign-ins from exceeding the limit. */
export const deleteOldest = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  { key_id, org_id }: KeyRef
) {
  yield* sql`SELECT 1 FROM api_keys WHERE org_id = ${org_id} AND key_id = ${key_id} FOR NO KEY UPDATE`
  return yield* endedRows.all(sql`
    DELETE FROM console_sessions
    WHERE org_id = ${org_id}
      AND digest IN (
        SELECT digest
        FROM console_sessions
        WHERE org_id = ${org_id}
          AND key_id = ${key_id}
        ORDER BY expires_at DESC, digest
        OFFSET ${MAX_SESSIONS_PER_KEY - 1}
      )
    RETURNING encode(digest, 'hex') AS digest
  `)
}, Effect.orDie)

/** Deletes the sessions of a key. `provider`: only of one session of the identity provider, and begun by a time. */
export const deleteSessionsOf = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  { key_id, org_id }: KeyRef,
  provider: { readonly session?: string | undefined; readonly begunBy?: Timestamp } = {}
) {
  const { begunBy, session } = provider
  return yield* endedRows.all(sql`
    DELETE FROM console_sessions
    WHERE ${sql.and([
      sql`org_id = ${org_id}`,
      sql`key_id = ${key_id}`,
      ...(begunBy === undefined ? [] : [sql`created_at <= ${toDate(begunBy)}::timestamptz`]),
      // A sign-in for which the provider stated no session may belong to this one.
      ...(session === undefined ? [] : [sql`(provider_session = ${session} OR provider_session IS NULL)`])
    ])}
    RETURNING encode(digest, 'hex') AS digest
  `)
}, Effect.orDie)
