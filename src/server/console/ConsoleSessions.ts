import { Context, DateTime, Duration, Effect, Layer, Redacted, Schema } from "effect"
import { IpNetwork } from "effect/net"
import { SqlClient } from "effect/sql"
import { createHash, randomBytes } from "node:crypto"
import type { ConsoleSession } from "../../api/Console.ts"
import { type AddressNotAllowed, InvalidApiKey } from "../../api/Problems.ts"
import { containsAddress } from "../../domain/identity/AllowedNetworks.ts"
import { KeyId, OrgId } from "../../domain/Ids.ts"
import { Actor, type Principal } from "../../domain/identity/Principal.ts"
import { Scope } from "../../domain/identity/Scope.ts"
import { type Timestamp, TimestampFromDate, toDate } from "../../domain/Time.ts"
import { grantedScopes } from "../identity/grantedScopes.ts"
import { keyMakers } from "../identity/keyMakers.ts"
import { addressNotAllowed, ApiKeys, type KeyPresentation } from "../identity/ApiKeys.ts"
import { AuthenticationRefusals } from "../identity/AuthenticationRefusals.ts"
import { runWorker, startWorkers } from "../concurrency/Worker.ts"
import { Audit } from "../identity/Audit.ts"
import type { KeyRef } from "../identity/KeyRef.ts"
import { Revocations } from "../identity/Revocations.ts"
import { findEndedSessions, makeSessionWatch, type SessionRef } from "./ConsoleSessions/SessionWatch.ts"
import { atomic } from "../store/transaction.ts"
import { rowsOf } from "../store/rows.ts"
import { StoreClock } from "../store/StoreClock.ts"

/** The lifetime of a session, independent of activity. It ends earlier if its key ends. */
export const SESSION_LIFETIME: Duration.Duration = Duration.hours(8)

/** Random bytes of a session token. */
const TOKEN_BYTES = 32

/** The most open sessions of one key: signing in once more ends the oldest. */
export const MAX_SESSIONS_PER_KEY = 20

/** The most expired sessions that one sign-in deletes, which bounds the table without a background worker. */
const EXPIRED_BATCH = 100

/** The interval of the poll for sessions that ended on other replicas. */
const CHECK_INTERVAL = "4 seconds"

/** The session of a request. */
export interface SignedInSession {
  readonly row: SessionRef
  readonly principal: Principal
  readonly view: ConsoleSession
  /** The networks that its key may be used from; null: anywhere. */
  readonly networks: ReadonlyArray<IpNetwork.IpNetwork> | null
  /** The time until it expires. */
  readonly remaining: Duration.Duration
}

/**
 * The sessions of browsers that signed in with an API key. The database stores only the SHA-256 of a session token. Each request checks
 * the session and its key, so that revoking the key ends its sessions immediately.
 */
export class ConsoleSessions extends Context.Service<
  ConsoleSessions,
  {
    /**
     * Opens a session for a valid API key; returns it with its token. `admit` runs before the database query for the key, and `request`
     * before the session is created: both can fail to reject the request. Ends the key's oldest sessions beyond `MAX_SESSIONS_PER_KEY`.
     */
    readonly open: <E>(
      key: Redacted.Redacted,
      signIn: KeyPresentation<E, never> & {
        readonly request: (principal: Principal) => Effect.Effect<void, E>
      }
    ) => Effect.Effect<
      { readonly token: Redacted.Redacted; readonly session: ConsoleSession },
      InvalidApiKey | AddressNotAllowed | E
    >
    /**
     * The session of a token, for a request from an address. Fails with 401 if it is unknown, expired or signed out, or if its key has ended, and
     * with 403 if its key may not be used from that address.
     */
    readonly find: (
      token: Redacted.Redacted,
      address: string
    ) => Effect.Effect<SignedInSession, InvalidApiKey | AddressNotAllowed>
    /** Signs a session out, and ends its streams on this replica immediately. An unknown token is ignored. */
    readonly close: (token: Redacted.Redacted) => Effect.Effect<void>
    /**
     * Completes when a session ends: by expiry, by signing out, or with its key. Immediately if this replica signed it out or revoked
     * the key, else within five seconds.
     */
    readonly ended: (session: SignedInSession) => Effect.Effect<void>
    /** Finds awaited sessions that another replica signed out, in one statement, and ends them. Returns how many. */
    readonly check: Effect.Effect<number>
  }
>()("countersign/server/console/ConsoleSessions") {
  static readonly layer = Layer.effect(
    ConsoleSessions,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const atomically = atomic(sql)
      const keys = yield* ApiKeys
      const audit = yield* Audit
      const clock = yield* StoreClock
      const refusals = yield* AuthenticationRefusals
      const watch = makeSessionWatch()

      const check = Effect.gen(function* () {
        const sessions = watch.sessions()
        if (sessions.length === 0) return 0
        const ended = yield* findEndedSessions(sql, sessions, yield* clock.now)
        ended.forEach(watch.end)
        return ended.length
      }).pipe(Effect.orDie)
      yield* (yield* Revocations).subscribe({
        keysInUse: watch.sessions,
        onEnded: watch.endSessionsOfKeys
      })
      yield* startWorkers([
        runWorker({
          name: "console_session_poll",
          runOnce: Effect.map(check, (ended) => ({ counts: { ended } })),
          every: CHECK_INTERVAL,
          firstRun: "after_pause"
        })
      ])

      const findByToken = Effect.fn("ConsoleSessions.findByToken")(function* (token: Token, now: Timestamp) {
        const row = yield* sessionRows
          .first(
            sql`
          SELECT console_sessions.expires_at, api_keys.key_id, api_keys.name,
            ${grantedScopes(sql)} AS scopes, ${keyMakers(sql)} AS makers, api_keys.allowed_networks, organizations.name AS organization
          FROM console_sessions
            JOIN api_keys USING (org_id, key_id)
            JOIN organizations USING (org_id)
          WHERE org_id = ${token.org_id}
            AND console_sessions.digest = ${token.digest}
            AND console_sessions.expires_at > ${toDate(now)}::timestamptz
            AND api_keys.revoked_at IS NULL
            AND (api_keys.expires_at IS NULL OR api_keys.expires_at > ${toDate(now)}::timestamptz)
        `
          )
          .pipe(Effect.orDie)
        return row === undefined ? undefined : toSession(token, row, now)
      })

      return ConsoleSessions.of({
        open: Effect.fn("ConsoleSessions.open")(function* (key, signIn) {
          const principal = yield* keys.authenticate(key, signIn)
          yield* signIn.request(principal)
          const { actor, org_id } = principal
          const now = yield* clock.now
          const secret = randomBytes(TOKEN_BYTES).toString("base64url")
          const token: Token = { org_id, digest: digestOf(secret) }
          const opened = yield* atomically(
            Effect.gen(function* () {
              yield* deleteExpired(sql, org_id, now)
              const ended = yield* deleteOldest(sql, { org_id, key_id: actor.id })
              for (let count = 0; count < ended.length; count++) {
                yield* audit.record({ org_id, actor }, "console.signed_out", actor.id, {
                  reason: "session limit"
                })
              }
              yield* sql.afterCommit(Effect.sync(() => ended.forEach(({ digest }) => watch.end(digest))))
              yield* sql`
                INSERT INTO console_sessions (org_id, digest, key_id, created_at, expires_at)
                VALUES (
                  ${org_id}, ${token.digest}, ${actor.id}, ${toDate(now)}::timestamptz,
                  ${toDate(DateTime.addDuration(now, SESSION_LIFETIME))}::timestamptz
                )
              `
              yield* audit.record({ org_id, actor }, "console.signed_in", actor.id)
              return (yield* findByToken(token, now)) ?? (yield* notSignedIn)
            })
          )
          return { token: Redacted.make(`${org_id}.${secret}`), session: opened.view }
        }),
        find: Effect.fn("ConsoleSessions.find")(function* (text, address) {
          const token = parseToken(text)
          const session = token === undefined ? undefined : yield* findByToken(token, yield* clock.now)
          if (session === undefined) {
            // A page that is opened without a cookie is no attempt.
            if (Redacted.value(text) !== "") refusals.record({ reason: "session", address })
            return yield* notSignedIn
          }
          const { networks, row } = session
          if (networks !== null && !containsAddress(networks, address)) {
            refusals.record({ reason: "address", address, key: row })
            return yield* addressNotAllowed(address)
          }
          keys.recordUse(row)
          return session
        }),
        close: Effect.fn("ConsoleSessions.close")(function* (text) {
          const token = parseToken(text)
          if (token === undefined) return
          const { digest, org_id } = token
          yield* atomically(
            Effect.gen(function* () {
              const rows = yield* actorRows.all(sql`
                DELETE FROM console_sessions
                USING api_keys
                WHERE console_sessions.org_id = ${org_id}
                  AND console_sessions.digest = ${digest}
                  AND api_keys.org_id = console_sessions.org_id
                  AND api_keys.key_id = console_sessions.key_id
                RETURNING api_keys.key_id AS id, api_keys.name
              `)
              for (const actor of rows) yield* audit.record({ org_id, actor }, "console.signed_out", actor.id)
            })
          )
          watch.end(hexOf(digest))
        }),
        ended: ({ remaining, row }) => Effect.raceFirst(clock.clock.sleep(remaining), watch.awaitEnd(row)),
        check
      })
    })
  )
}

/** A parsed token: the organization and the digest of its secret, which are the key of its row. */
interface Token {
  readonly org_id: OrgId
  readonly digest: Uint8Array
}

const digestOf = (secret: string): Uint8Array => createHash("sha256").update(secret).digest()

const hexOf = (digest: Uint8Array): string => Buffer.from(digest).toString("hex")

const TOKEN = /^(org_[0-9a-f]{32})\.([\w-]{43})$/

const parseToken = (text: Redacted.Redacted): Token | undefined => {
  const [, org = "", secret = ""] = TOKEN.exec(Redacted.value(text)) ?? []
  return secret === "" ? undefined : { org_id: OrgId.make(org), digest: digestOf(secret) }
}

const SessionRow = Schema.Struct({
  expires_at: TimestampFromDate,
  key_id: KeyId,
  name: Schema.String,
  scopes: Schema.Array(Scope),
  makers: Schema.Array(KeyId),
  allowed_networks: Schema.NullOr(Schema.Array(Schema.String)),
  organization: Schema.String
})

const sessionRows = rowsOf(SessionRow)

const actorRows = rowsOf(Actor)

const toSession = (
  { digest, org_id }: Token,
  row: typeof SessionRow.Type,
  now: Timestamp
): SignedInSession => ({
  row: { org_id, digest: hexOf(digest), key_id: row.key_id },
  principal: {
    org_id,
    actor: { id: row.key_id, name: row.name },
    scopes: new Set(row.scopes),
    makers: row.makers
  },
  view: {
    organization: row.organization,
    key: { id: row.key_id, name: row.name },
    scopes: row.scopes,
    expires_at: row.expires_at,
    now
  },
  networks: row.allowed_networks?.map(IpNetwork.fromStringUnsafe) ?? null,
  remaining: DateTime.distance(now, row.expires_at)
})

const deleteExpired = (sql: SqlClient.SqlClient, org_id: OrgId, now: Timestamp) =>
  sql`
    DELETE FROM console_sessions
    WHERE org_id = ${org_id}
      AND digest IN (
        SELECT digest
        FROM console_sessions
        WHERE org_id = ${org_id}
          AND expires_at <= ${toDate(now)}::timestamptz
        ORDER BY expires_at
        LIMIT ${EXPIRED_BATCH}
      )
  `.pipe(Effect.orDie)

const endedRows = rowsOf(Schema.Struct({ digest: Schema.String }))

/** Makes room for one more session of the key. The lock keeps concurrent sign-ins from exceeding the limit. */
const deleteOldest = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, { key_id, org_id }: KeyRef) {
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

const notSignedIn = Effect.fail(new InvalidApiKey({ detail: "Not signed in, or the session has expired." }))
