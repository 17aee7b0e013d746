import type { PgClient } from "@effect/sql-pg"
import {
  type Cause,
  Clock,
  Context,
  Duration,
  Effect,
  Fiber,
  Layer,
  Option,
  Schedule,
  type Scope,
  Semaphore,
  type Stream
} from "effect"
import { SqlClient, SqlError } from "effect/sql"
import { Authorized } from "../../api/Authorization.ts"
import { CursorExpired, InvalidRequest, type NotFound, Unavailable } from "../../api/Problems.ts"
import type { SessionId } from "../../domain/Ids.ts"
import { listenToSignals, type SessionSignal } from "./SessionSignals.ts"
import { makeHub } from "./SessionStream/Hub.ts"
import { endedKeys, missedEvents, readEvents, sessionState } from "./SessionStream/rows.ts"
import type { ReadResult, SessionKey } from "./SessionStream/Subscription.ts"
import { exchangeSignals } from "./SessionStream/crossReplicaSignals.ts"
import { sessionNotFound } from "./Sessions.ts"
import { StoreClock } from "../store/StoreClock.ts"

/** How streams are kept; all of it has defaults. */
export interface SessionStreamOptions {
  /** Open streams of this process. One more is answered 503. Default 20,000. */
  readonly maxStreams?: number
  /** Of them those of one organization, so that it leaves room for the others. Default: three quarters of all. */
  readonly maxStreamsPerOrganization?: number
  /** Between two comments of a stream. Default 15 seconds. */
  readonly heartbeat?: Duration.Input
  /** How long a socket may take for one page before it is cut. Default 30 seconds. */
  readonly sendTimeout?: Duration.Input
  /** How often comments and slow readers are looked for. Default 500 milliseconds. */
  readonly sweep?: Duration.Input
  /** How often the store is asked for events nobody told us of. Default 10 seconds. */
  readonly pollEvents?: Duration.Input
  /** How often it is asked for keys that have ended: revoking works within five seconds. Default 4 seconds. */
  readonly pollKeys?: Duration.Input
  /** How long signals for other replicas are gathered. Default 25 milliseconds. */
  readonly coalesce?: Duration.Input
}

/** Is told of signals; undefined: some may have been lost. */
export type SessionSignalListener = (signals: ReadonlyArray<SessionSignal> | undefined) => void

/** Readings of the store at one time: enough for ten thousand sessions a second, and far from all of its connections. */
const READINGS_AT_ONCE = 32

/** Sessions of one statement of the check. */
const CHECKED_AT_ONCE = 20_000

/** While the store is away, readings are tried again: soon at first, then every few seconds. */
const readAgain = Schedule.exponential("100 millis").pipe(
  Schedule.modifyDelay(({ duration }) => Effect.succeed(Duration.min(duration, Duration.seconds(5)))),
  Schedule.jittered
)

/**
 * Streams of session events: read by cursor from the store, woken by whoever records one, in this process or another.
 *
 * After the cursor nothing is missed and nothing comes twice: numbers follow commit order, and each page goes on from the last
 * number that was sent. A stream ends, to be resumed by its cursor, when its key has ended, its reader does not read, its events are
 * no longer kept, or the service stops.
 */
export class SessionStream extends Context.Service<
  SessionStream,
  {
    /**
     * The events of a session after a cursor (undefined: from the first kept one on) as server-sent events. None: the session is
     * closed and the cursor is at its last event, so that there will never be more.
     */
    readonly open: (
      id: SessionId,
      cursor: number | undefined
    ) => Effect.Effect<
      Option.Option<Stream.Stream<Uint8Array>>,
      NotFound | CursorExpired | InvalidRequest | Unavailable,
      Authorized<"sessions.read">
    >
    /**
     * Is told, until the scope closes, of events that were committed in this process or another; undefined: some may have gone by
     * unheard. It must not throw, and returns at once.
     */
    readonly listen: (listener: SessionSignalListener) => Effect.Effect<void, never, Scope.Scope>
    /** Open streams of this process. */
    readonly size: Effect.Effect<number>
    /** Sends due comments, cuts those who do not read. */
    readonly sweep: Effect.Effect<{ readonly comments: number; readonly cut: number }>
    /** Finds events nobody told us of, and ends the streams of keys that may no longer. Two statements, however many streams. */
    readonly check: Effect.Effect<{ readonly behind: number; readonly ended: number }>
    /** Ends every stream, so that clients go elsewhere; a stream that is opened later ends at once. */
    readonly endAll: Effect.Effect<void>
  }
>()("countersign/server/approvals/SessionStream") {
  static readonly layer = (
    options: SessionStreamOptions = {}
  ): Layer.Layer<SessionStream, never, PgClient.PgClient | SqlClient.SqlClient | StoreClock> =>
    Layer.effect(SessionStream, make(options))

  /**
   * Ends the streams when its scope closes. Built over the listening server it does so before that waits for open requests; else
   * a stop would wait for the streams until its patience ends.
   */
  static readonly layerEndAtStop: Layer.Layer<never, never, SessionStream> = Layer.effectDiscard(
    Effect.flatMap(SessionStream, ({ endAll }) => Effect.addFinalizer(() => endAll))
  )
}

const make = Effect.fnUntraced(function* (options: SessionStreamOptions) {
  const sql = yield* SqlClient.SqlClient
  const storeClock = yield* StoreClock
  const maxStreams = options.maxStreams ?? 20_000
  const maxOfOrganization = options.maxStreamsPerOrganization ?? Math.ceil(maxStreams * 0.75)
  const turns = yield* Semaphore.make(READINGS_AT_ONCE)
  const runFork = Effect.runForkWith(yield* Effect.context<never>())
  const scope = yield* Effect.scope

  const read = (session: SessionKey, after: number, wanted: () => boolean): Effect.Effect<ReadResult> =>
    readEvents(sql, session, after).pipe(
      turns.withPermits(1),
      Effect.retry({ schedule: readAgain, while: (error) => SqlError.isSqlError(error) && wanted() }),
      Effect.catchCause((cause) =>
        Effect.as(Effect.logError("Session events could not be read", cause), unreadable)
      )
    )

  const hub = makeHub({
    clock: yield* Clock.Clock,
    heartbeatMillis: Duration.toMillis(options.heartbeat ?? "15 seconds"),
    sendTimeoutMillis: Duration.toMillis(options.sendTimeout ?? "30 seconds"),
    read,
    fork: (reading) => void Fiber.runIn(runFork(reading), scope)
  })

  const unchecked = (cause: Cause.Cause<unknown>) =>
    Effect.as(Effect.logDebug("Session streams could not be checked", cause), 0)

  const checkEvents = Effect.gen(function* () {
    const followed = hub.followedSessions().slice(0, CHECKED_AT_ONCE)
    const behind = followed.length === 0 ? [] : yield* missedEvents(sql, followed)
    hub.signal(behind)
    return behind.length
  }).pipe(Effect.catchCause(unchecked))

  const checkKeys = Effect.gen(function* () {
    const keys = hub.keys()
    const over = keys.length === 0 ? [] : yield* endedKeys(sql, keys, yield* storeClock.now)
    return hub.endStreamsOfKeys(new Set(over))
  }).pipe(Effect.catchCause(unchecked))

  const check = Effect.all({ behind: checkEvents, ended: checkKeys })
  const sweep = Effect.sync(() => hub.sweep())

  const listeners = new Set<SessionSignalListener>()
  const tell: SessionSignalListener = (signals) => {
    if (signals !== undefined) hub.signal(signals)
    for (const listener of listeners) listener(signals)
  }
  yield* listenToSignals(sql, tell)
  yield* exchangeSignals({
    coalesce: options.coalesce ?? "25 millis",
    onSignals: tell,
    onGap: Effect.andThen(
      Effect.sync(() => tell(undefined)),
      check
    )
  })
  yield* Effect.forkScoped(Effect.schedule(sweep, Schedule.spaced(options.sweep ?? "500 millis")))
  yield* Effect.forkScoped(Effect.schedule(checkEvents, Schedule.spaced(options.pollEvents ?? "10 seconds")))
  yield* Effect.forkScoped(Effect.schedule(checkKeys, Schedule.spaced(options.pollKeys ?? "4 seconds")))

  return SessionStream.of({
    open: Effect.fn("SessionStream.open")(function* (id, cursor) {
      const { actor, org_id } = yield* Authorized("sessions.read")
      if (hub.size() >= maxStreams) {
        return yield* new Unavailable({ detail: "This process has reached its limit of open streams" })
      }
      if (hub.sizeOfOrganization(org_id) >= maxOfOrganization) {
        return yield* new Unavailable({
          detail: `This process has reached its limit of the organization's open streams, ${maxOfOrganization}: follow sessions only while something is waited for`
        })
      }
      const session = { org_id, session_id: id }
      const state = yield* Effect.orDie(sessionState(sql, session))
      if (state === undefined) return yield* sessionNotFound
      const { closed, newest } = state
      const first = state.first_kept ?? newest + 1
      const after = cursor ?? first - 1
      if (after > newest) return yield* beyond(newest)
      if (after < first - 1) return yield* expired(first)
      return closed && after === newest ? Option.none() : Option.some(hub.stream(session, actor.id, after))
    }),
    listen: (listener) =>
      Effect.acquireRelease(
        Effect.sync(() => listeners.add(listener)),
        () => Effect.sync(() => listeners.delete(listener))
      ),
    size: Effect.sync(() => hub.size()),
    sweep,
    check,
    endAll: Effect.sync(() => hub.endAll())
  })
})

/** What cannot be read ends the stream; who connects again hears of the fault. */
const unreadable: ReadResult = { _tag: "Gap" }

const beyond = (newest: number) => {
  const detail = `The session's newest event is number ${newest}: the cursor is not from this session`
  return Effect.fail(new InvalidRequest({ detail, errors: [{ pointer: "#/after", detail }] }))
}

const expired = (first: number) =>
  Effect.fail(
    new CursorExpired({
      detail: `The first event that is kept is number ${first}: read the session and its approvals anew, then go on from there`,
      first_kept: first
    })
  )
