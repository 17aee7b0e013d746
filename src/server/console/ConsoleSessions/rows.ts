import { Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { ConsoleSessionId, KeyId, type OrgId } from "../../../domain/Ids.ts"
import { Actor } from "../../../domain/identity/Principal.ts"
import { Scope } from "../../../domain/identity/Scope.ts"
import { type Timestamp, TimestampFromDate, toDate } from "../../../domain/Time.ts"
import type { KeyRef } from "../../identity/KeyRef.ts"
import { rowsOf } from "../../store/rows.ts"

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
  makers: Schema.Array(KeyId),
  allowed_networks: Schema.NullOr(Schema.Array(Schema.String)),
  organization: Schema.String
})

export const sessionRows = rowsOf(SessionRow)

export const signInRows = rowsOf(
  Schema.Struct({
    id: ConsoleSessionId,
    key_id: KeyId,
    name: Schema.String,
    created_at: TimestampFromDate,
    last_active_at: TimestampFromDate,
    expires_at: TimestampFromDate,
    browser: Schema.NullOr(Schema.String),
    address: Schema.NullOr(Schema.String)
  })
)

export const digestRows = rowsOf(Schema.Struct({ digest: Schema.String, key_id: KeyId }))

export const actorRows = rowsOf(Actor)

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
