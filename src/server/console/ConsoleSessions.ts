import { Context, DateTime, Duration, Effect, Layer, Redacted } from "effect"
import { IpNetwork } from "effect/net"
import { SqlClient } from "effect/sql"
import type { ConsoleSession, SignIn } from "../../api/Console.ts"
import { notFound } from "../../api/notFound.ts"
import type { PageRequest } from "../../api/Pagination.ts"
import {
  type AddressNotAllowed,
  InsufficientScope,
  InvalidApiKey,
  type NotFound,
  type RateLimited
} from "../../api/Problems.ts"
import { containsAddress } from "../../domain/identity/AllowedNetworks.ts"
import { ConsoleSessionId, type KeyId, type OrgId } from "../../domain/Ids.ts"
import type { AuditEntry } from "../../domain/identity/AuditEntry.ts"
import type { Actor, Principal } from "../../domain/identity/Principal.ts"
import { type Timestamp, toDate } from "../../domain/Time.ts"
import { addressNotAllowed, ApiKeys, type KeyPresentation } from "../identity/ApiKeys.ts"
import { AuthenticationRefusals } from "../identity/AuthenticationRefusals.ts"
import { LruCache } from "../concurrency/LruCache.ts"
import { runWorker, startWorkers } from "../concurrency/Worker.ts"
import { Audit, type Author } from "../identity/Audit.ts"
import type { KeyRef } from "../identity/KeyRef.ts"
import { Revocations } from "../identity/Revocations.ts"
import { browserName } from "./ConsoleSessions/browserName.ts"
import {
  deleteByToken,
  deleteExpired,
  deleteOldest,
  deleteSession,
  deleteSessionsOf,
  findSession,
  insertSession,
  listSessions,
  type SessionRow,
  updateActivity
} from "./ConsoleSessions/rows.ts"
import { generateToken, hexOf, parseToken, type SessionToken } from "./ConsoleSessions/sessionToken.ts"
import { makeEndWatch } from "../concurrency/EndWatch.ts"
import { findEndedSessions, type SessionRef } from "./ConsoleSessions/endedSessions.ts"
import { atomic } from "../store/transaction.ts"
import { type Page, toPage } from "../store/Pagination.ts"
import { StoreClock } from "../store/StoreClock.ts"

/**
 * The lifetime of a session, independent of activity. It ends earlier if it is idle or if its key is revoked or
 * expires.
 */
export const SESSION_LIFETIME: Duration.Duration = Duration.hours(8)

/** Precision of a session's last activity: it is written at most this often. */
const ACTIVITY_PRECISION = Duration.minutes(1)

/** A time before any activity, even with the clock of tests, which starts at the Unix epoch. */
const BEFORE_ALL = new Date(-1)

/** The interval of the poll for sessions that ended on other replicas. */
const CHECK_INTERVAL = "4 seconds"

/** The scope that allows listing and ending the sessions of all keys. */
const MANAGE = "keys.write"

/** Sessions that one replica remembers as open, so that a flood of unknown tokens cannot keep them out. */
const MAX_REMEMBERED = 10_000

/** The browser that signs in. */
export interface SignInOrigin {
  /** The client's address. */
  readonly address: string
  /** The request's `User-Agent`. */
  readonly userAgent: string | undefined
}

/** A request of a session. */
export interface SessionRequest {
  /** The client's address. */
  readonly address: string
  /** Whether the user made it; false for the automatic refresh of a page. */
  readonly isActive: boolean
  /** Runs before the query, if this replica knows no session of the token. */
  readonly admit: Effect.Effect<void, RateLimited>
}

/** The session of a request. */
export interface SignedInSession {
  readonly row: SessionRef
  readonly principal: Principal
  readonly view: ConsoleSession
  /** The networks that its key may be used from; null: anywhere. */
  readonly networks: ReadonlyArray<IpNetwork.IpNetwork> | null
  readonly lastActiveAt: Timestamp
  /** The time until it expires. */
  readonly remaining: Duration.Duration
}

/**
 * The sessions of browsers that signed in, with an API key or by single sign-on. The database stores only the SHA-256 of
 * a session token. Each request checks the session and its key, so that revoking the key ends its sessions immediately.
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
      signIn: KeyPresentation<E, never> &
        SignInOrigin & {
          readonly request: (principal: Principal) => Effect.Effect<void, E>
        }
    ) => Effect.Effect<
      { readonly token: Redacted.Redacted; readonly session: ConsoleSession },
      InvalidApiKey | AddressNotAllowed | E
    >
    /** Opens a session of a person whom the identity provider has just signed in. `providerSession`: the provider's `sid`. */
    readonly openFor: (
      person: KeyRef,
      name: string,
      from: SignInOrigin,
      providerSession: string | null
    ) => Effect.Effect<{ readonly token: Redacted.Redacted; readonly session: ConsoleSession }>
    /**
     * The session of a token, for a request. Fails with 401 if it is unknown, expired, idle for too long or signed out,
     * or if its key has ended, and with 403 if its key may not be used from the client's address.
     */
    readonly find: (
      token: Redacted.Redacted,
      request: SessionRequest
    ) => Effect.Effect<SignedInSession, InvalidApiKey | AddressNotAllowed | RateLimited>
    /** The open sessions of the principal's key, or of its organization, newest first. */
    readonly list: (
      principal: Principal,
      request: PageRequest<ConsoleSessionId> & { readonly of?: "key" | "organization" }
    ) => Effect.Effect<Page<SignIn, ConsoleSessionId>, InsufficientScope>
    /** Ends a session of the principal's key or, with `keys.write`, of a key of its organization that has no right beyond the principal's. */
    readonly end: (
      principal: Principal,
      id: ConsoleSessionId
    ) => Effect.Effect<void, NotFound | InsufficientScope>
    /**
     * Ends the sessions of a person who has no right beyond the principal's, also on other replicas within five seconds. Returns their
     * number.
     */
    readonly endAllOf: (principal: Principal, key_id: KeyId) => Effect.Effect<number, InsufficientScope>
    /** Ends sessions of a person because of a logout at the identity provider: of one of its sessions, or all that began by then. */
    readonly endByProvider: (
      person: KeyRef & { readonly name: string },
      which: { readonly session: string | undefined; readonly begunBy: Timestamp }
    ) => Effect.Effect<number>
    /** Signs a session out, and ends its streams on this replica immediately. An unknown token is ignored. `admit`: see {@link SessionRequest}. */
    readonly close: <E>(token: Redacted.Redacted, admit: Effect.Effect<void, E>) => Effect.Effect<void, E>
    /**
     * Completes when a session ends: by expiry, without activity, by signing out, or with its key. Immediately if this
     * replica signed it out or revoked the key, else within five seconds.
     */
    readonly ended: (session: SignedInSession) => Effect.Effect<void>
    /** Finds awaited sessions that are idle or that another replica signed out, in one statement, and ends them. Returns how many. */
    readonly check: Effect.Effect<number>
  }
>()("countersign/server/console/ConsoleSessions") {
  /** `idle`: how long a session lasts without activity of its user; zero: until it expires. */
  static readonly layer = ({ idle }: { readonly idle: Duration.Duration }) =>
    Layer.effect(
      ConsoleSessions,
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const atomically = atomic(sql)
        const keys = yield* ApiKeys
        const audit = yield* Audit
        const clock = yield* StoreClock
        const refusals = yield* AuthenticationRefusals
        const watch = makeEndWatch(({ digest }: SessionRef) => digest)
        /** Digests of tokens whose session was open at its last request. */
        const remembered = new LruCache<true>({ entries: MAX_REMEMBERED, weight: MAX_REMEMBERED })
        const forget = (digest: string) => {
          remembered.delete(digest)
          watch.end(digest)
        }
        const isRemembered = ({ digest }: SessionToken) => remembered.get(hexOf(digest)) === true

        /** Sessions whose user was last active by then have ended. */
        const idleSince = (now: Timestamp): Date =>
          Duration.isZero(idle) ? BEFORE_ALL : toDate(DateTime.subtractDuration(now, idle))

        const check = Effect.gen(function* () {
          const sessions = watch.refs()
          if (sessions.length === 0) return 0
          const now = yield* clock.now
          const ended = yield* findEndedSessions(sql, sessions, now, idleSince(now))
          ended.forEach(forget)
          return ended.length
        }).pipe(Effect.orDie)
        yield* (yield* Revocations).subscribe({
          keysInUse: watch.refs,
          onEnded: (keys) => {
            for (const { digest, key_id } of watch.refs()) if (keys.has(key_id)) watch.end(digest)
          }
        })
        yield* startWorkers([
          runWorker({
            name: "console_session_poll",
            runOnce: Effect.map(check, (ended) => ({ counts: { ended } })),
            every: CHECK_INTERVAL,
            firstRun: "after_pause"
          })
        ])

        const findByToken = Effect.fn("ConsoleSessions.findByToken")(function* (
          token: SessionToken,
          now: Timestamp
        ) {
          const row = yield* findSession(sql, token, now, idleSince(now))
          return row === undefined ? undefined : toSession(token, row, now)
        })

        /** Writes that the user is active, unless the stored time is recent. */
        const recordActivity = (token: SessionToken, { lastActiveAt }: SignedInSession, now: Timestamp) =>
          Duration.isLessThan(DateTime.distance(lastActiveAt, now), ACTIVITY_PRECISION)
            ? Effect.void
            : updateActivity(sql, token, now)

        /** Opens a session of a key or a person, and ends the oldest beyond the limit. */
        const start = Effect.fnUntraced(function* (
          org_id: OrgId,
          actor: Actor,
          { address, userAgent }: SignInOrigin,
          detail: AuditEntry["detail"] = {},
          providerSession: string | null = null
        ) {
          const now = yield* clock.now
          const { text, token } = generateToken(org_id)
          const opened = yield* atomically(
            Effect.gen(function* () {
              yield* deleteExpired(sql, org_id, now, idleSince(now))
              const ended = yield* deleteOldest(sql, { org_id, key_id: actor.id })
              for (let count = 0; count < ended.length; count++) {
                yield* audit.record({ org_id, actor }, "console.signed_out", actor.id, {
                  reason: "session limit"
                })
              }
              yield* sql.afterCommit(Effect.sync(() => ended.forEach(({ digest }) => forget(digest))))
              yield* insertSession(sql, token, {
                session_id: yield* ConsoleSessionId.generate,
                key_id: actor.id,
                created_at: now,
                expires_at: DateTime.addDuration(now, SESSION_LIFETIME),
                provider_session: providerSession,
                browser: browserName(userAgent),
                address
              })
              yield* audit.record({ org_id, actor }, "console.signed_in", actor.id, detail)
              return (yield* findByToken(token, now)) ?? (yield* notSignedIn)
            })
          )
          remembered.set(hexOf(token.digest), true, 1)
          return { token: text, session: opened.view }
        })

        /** Ends sessions of a person, with one audit entry for all of them. */
        const endSessions = Effect.fnUntraced(function* (
          person: KeyRef,
          author: Author,
          which: Parameters<typeof deleteSessionsOf>[2],
          detail: AuditEntry["detail"] = {}
        ) {
          const ended = yield* atomically(
            Effect.gen(function* () {
              const rows = yield* deleteSessionsOf(sql, person, which)
              if (rows.length > 0) {
                yield* audit.record(author, "person.sessions_ended", person.key_id, {
                  ...detail,
                  sessions: rows.length
                })
              }
              return rows
            })
          )
          ended.forEach(({ digest }) => forget(digest))
          return ended.length
        })

        return ConsoleSessions.of({
          open: Effect.fn("ConsoleSessions.open")(function* (key, signIn) {
            const principal = yield* keys.authenticate(key, signIn)
            yield* signIn.request(principal)
            return yield* start(principal.org_id, principal.actor, signIn)
          }),
          openFor: Effect.fn("ConsoleSessions.openFor")(function* (
            { key_id, org_id },
            name,
            from,
            providerSession
          ) {
            // Cannot fail: the person was just admitted, so the session is found.
            return yield* Effect.orDie(
              start(org_id, { id: key_id, name }, from, { by: "single sign-on" }, providerSession)
            )
          }),
          find: Effect.fn("ConsoleSessions.find")(function* (text, { address, admit, isActive }) {
            const token = parseToken(text)
            if (token !== undefined && !isRemembered(token)) yield* admit
            const now = yield* clock.now
            const session = token === undefined ? undefined : yield* findByToken(token, now)
            if (token !== undefined) {
              if (session === undefined) remembered.delete(hexOf(token.digest))
              else remembered.set(hexOf(token.digest), true, 1)
            }
            if (session === undefined) {
              // A request without a cookie is not an attempt to authenticate.
              if (Redacted.value(text) !== "") refusals.record({ reason: "session", address })
              return yield* notSignedIn
            }
            const { networks, row } = session
            if (networks !== null && !containsAddress(networks, address)) {
              refusals.record({ reason: "address", address, key: row })
              return yield* addressNotAllowed(address)
            }
            keys.recordUse(row)
            if (isActive && token !== undefined) yield* recordActivity(token, session, now)
            return session
          }),
          list: Effect.fn("ConsoleSessions.list")(function* (principal, request) {
            const { actor, org_id, scopes } = principal
            const isOwn = request.of !== "organization"
            if (!isOwn && !scopes.has(MANAGE)) {
              return yield* new InsufficientScope({
                detail: `Listing the sessions of other keys requires ${MANAGE}.`,
                required_scope: MANAGE
              })
            }
            const now = yield* clock.now
            const rows = yield* listSessions(
              sql,
              org_id,
              isOwn ? actor.id : undefined,
              request,
              now,
              idleSince(now)
            )
            return toPage(
              request,
              rows.map(({ key_id, name, ...row }): SignIn => ({ ...row, key: { id: key_id, name } })),
              ({ id }) => id
            )
          }),
          end: Effect.fn("ConsoleSessions.end")(function* (principal, session_id) {
            const { actor, org_id, scopes } = principal
            const digest = yield* atomically(
              Effect.gen(function* () {
                const ownKey = scopes.has(MANAGE) ? undefined : actor.id
                const row = yield* deleteSession(sql, org_id, session_id, ownKey)
                if (row === undefined) return yield* notFound("session")
                // Its failure rolls the deletion back.
                yield* keys.requireRightsOfKey(principal, row.key_id)
                yield* audit.record({ org_id, actor }, "console.signed_out", row.key_id, { session_id })
                return row.digest
              })
            )
            forget(digest)
          }),
          endAllOf: Effect.fn("ConsoleSessions.endAllOf")(function* (principal, key_id) {
            yield* keys.requireRightsOfKey(principal, key_id)
            return yield* endSessions({ org_id: principal.org_id, key_id }, principal, {})
          }),
          endByProvider: Effect.fn("ConsoleSessions.endByProvider")(function* (
            { key_id, name, org_id },
            which
          ) {
            const author = { org_id, actor: { id: key_id, name } }
            return yield* endSessions({ org_id, key_id }, author, which, { by: "single logout" })
          }),
          close: Effect.fn("ConsoleSessions.close")(function* (text, admit) {
            const token = parseToken(text)
            if (token === undefined) return
            if (!isRemembered(token)) yield* admit
            const { digest, org_id } = token
            yield* atomically(
              Effect.gen(function* () {
                const actor = yield* deleteByToken(sql, token)
                if (actor !== undefined)
                  yield* audit.record({ org_id, actor }, "console.signed_out", actor.id)
              })
            )
            forget(hexOf(digest))
          }),
          ended: ({ remaining, row }) => Effect.raceFirst(clock.clock.sleep(remaining), watch.awaitEnd(row)),
          check
        })
      })
    )
}

const toSession = (
  { digest, org_id }: SessionToken,
  row: typeof SessionRow.Type,
  now: Timestamp
): SignedInSession => ({
  row: { org_id, digest: hexOf(digest), key_id: row.key_id },
  principal: {
    org_id,
    actor: { id: row.key_id, name: row.name },
    scopes: new Set(row.scopes),
    groups: row.groups,
    keyMakers: row.key_makers,
    makers: row.makers
  },
  lastActiveAt: row.last_active_at,
  view: {
    id: row.session_id,
    organization: row.organization,
    key: { id: row.key_id, name: row.name },
    scopes: row.scopes,
    groups: row.groups,
    expires_at: row.expires_at,
    now
  },
  networks: row.allowed_networks?.map(IpNetwork.fromStringUnsafe) ?? null,
  remaining: DateTime.distance(now, row.expires_at)
})

const notSignedIn = Effect.fail(new InvalidApiKey({ detail: "Not signed in, or the session has expired." }))
