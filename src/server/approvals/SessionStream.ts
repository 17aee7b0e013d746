import {
  Clock,
  Context,
  Duration,
  Effect,
  Fiber,
  Latch,
  Layer,
  Option,
  Schedule,
  type Scope,
  Semaphore,
  type Stream
} from "effect"
import { SqlClient, SqlError } from "effect/sql"
import { type Authorized, AuthorizedEither } from "../../api/Authorization.ts"
import { notFound } from "../../api/notFound.ts"
import {
  CursorExpired,
  type InsufficientScope,
  InvalidRequest,
  type NotFound,
  Unavailable
} from "../../api/Problems.ts"
import type { SessionId } from "../../domain/Ids.ts"
import { runWorker, startWorkers } from "../concurrency/Worker.ts"
import { Revocations } from "../identity/Revocations.ts"
import { SessionFacts } from "./SessionFacts.ts"
import { SessionSignals } from "./SessionSignals.ts"
import { makeHub, type StreamRefusal } from "./SessionStream/Hub.ts"
import { findMissedSignals, findSessionState, readEvents } from "./SessionStream/rows.ts"
import type { ReadResult, SessionKey } from "./SessionStream/Subscription.ts"

/** Limits and intervals of the streams. */
export interface SessionStreamOptions {
  /**
   * Open streams of this replica. If all are in use, a new one replaces a stream of the organization with the most, so
   * that a few organizations cannot exclude the others; that organization itself gets 503 for further streams. Default
   * 20,000.
   */
  readonly maxStreams?: number
  /**
   * Maximum number of open streams of one organization: below the total, so that other organizations find free ones.
   * Default: three quarters of `maxStreams`.
   */
  readonly maxStreamsPerOrganization?: number
  /** Between two heartbeats of a stream. Default 15 seconds. */
  readonly heartbeat?: Duration.Input
  /** How long a client may take to read one page before its connection is cut. Default 30 seconds. */
  readonly sendTimeout?: Duration.Input
  /** Between two sweeps for due heartbeats and slow clients. Default 500 milliseconds. */
  readonly sweep?: Duration.Input
  /** Between two polls for events whose signal was lost. Default 10 seconds. */
  readonly pollEvents?: Duration.Input
}

/** Concurrent reads of pages: enough for ten thousand sessions a second, on a few of the pool's pipelined connections. */
const MAX_CONCURRENT_READS = 32

/** Sessions that one poll checks. */
const MAX_POLLED_SESSIONS = 20_000

/** Backoff of a failed read: from 100 ms to 5 s, with jitter. */
const readRetry = Schedule.exponential("100 millis").pipe(
  Schedule.modifyDelay(({ duration }) => Effect.succeed(Duration.min(duration, Duration.seconds(5)))),
  Schedule.jittered
)

/**
 * Streams of session events, as server-sent events. A stream reads pages of events by cursor from the database. A signal from
 * `SessionSignals` wakes it when there are more.
 *
 * After its cursor a stream misses no event and repeats none: numbers follow commit order, and each page continues after the last number
 * that was sent. A stream ends, and can be resumed by its cursor, when its key has ended (`Revocations`), its client is too slow, its
 * events were removed by retention, or the service shuts down. The streams of a deleted session end at the next poll.
 */
export class SessionStream extends Context.Service<
  SessionStream,
  {
    /**
     * The events of a session after `cursor`; without one, from the first retained event. None if there can be no more events: the
     * session is closed and the cursor is at its last event. The stream counts towards the limits until it has ended or
     * the scope, that of the request, closes.
     */
    readonly open: (
      id: SessionId,
      cursor: number | undefined
    ) => Effect.Effect<
      Option.Option<Stream.Stream<Uint8Array>>,
      NotFound | InsufficientScope | CursorExpired | InvalidRequest | Unavailable,
      Authorized<"sessions.read" | "sessions.write"> | Scope.Scope
    >
    /** The number of open streams of this replica. */
    readonly size: Effect.Effect<number>
    /** Sends the heartbeats that are due and cuts the connections of slow clients. */
    readonly sweep: Effect.Effect<{ readonly heartbeats: number; readonly cut: number }>
    /** Finds events whose signal was lost, with one statement for all streams. Returns the number of sessions that were behind. */
    readonly pollEvents: Effect.Effect<number>
    /** Ends every stream, so that clients reconnect to another replica. A stream that opens later ends immediately. */
    readonly endAll: Effect.Effect<void>
  }
>()("countersign/server/approvals/SessionStream") {
  static readonly layer = (
    options: SessionStreamOptions = {}
  ): Layer.Layer<SessionStream, never, SqlClient.SqlClient | SessionFacts | SessionSignals | Revocations> =>
    Layer.effect(SessionStream, make(options))

  /**
   * Ends the streams when its scope closes. It must be built over the listening server, so that it runs before the server drains its
   * open requests: the drain would otherwise wait for the streams until it times out.
   */
  static readonly layerEndOnShutdown: Layer.Layer<never, never, SessionStream> = Layer.effectDiscard(
    Effect.flatMap(SessionStream, ({ endAll }) => Effect.addFinalizer(() => endAll))
  )
}

const make = Effect.fnUntraced(function* (options: SessionStreamOptions) {
  const sql = yield* SqlClient.SqlClient
  const facts = yield* SessionFacts
  const maxStreams = options.maxStreams ?? 20_000
  const maxPerOrganization = options.maxStreamsPerOrganization ?? Math.ceil(maxStreams * 0.75)
  const readPermits = yield* Semaphore.make(MAX_CONCURRENT_READS)
  const runFork = Effect.runForkWith(yield* Effect.context<never>())
  const scope = yield* Effect.scope

  const read = (session: SessionKey, after: number, isWanted: () => boolean): Effect.Effect<ReadResult> =>
    readEvents(sql, session, after).pipe(
      readPermits.withPermits(1),
      Effect.retry({ schedule: readRetry, while: (error) => SqlError.isSqlError(error) && isWanted() }),
      Effect.catchCause((cause) =>
        Effect.as(Effect.logError("Could not read session events; ending their streams", cause), unreadable)
      )
    )

  const hub = makeHub({
    clock: yield* Clock.Clock,
    maxStreams,
    maxPerOrganization,
    heartbeatMillis: Duration.toMillis(options.heartbeat ?? "15 seconds"),
    sendTimeoutMillis: Duration.toMillis(options.sendTimeout ?? "30 seconds"),
    read,
    fork: (effect) => void Fiber.runIn(runFork(effect), scope)
  })

  const pollEvents = Effect.gen(function* () {
    const sessions = hub.followedSessions().slice(0, MAX_POLLED_SESSIONS)
    const missed = sessions.length === 0 ? [] : yield* findMissedSignals(sql, sessions)
    hub.signal(missed)
    return missed.length
  }).pipe(Effect.orDie)

  const sweep = Effect.sync(() => hub.sweep())

  const signalsLost = Latch.makeUnsafe(false)
  const sessionSignals = yield* SessionSignals
  yield* sessionSignals.subscribe({
    onSignals: (signals) => {
      if (signals === undefined) signalsLost.openUnsafe()
      else hub.signal(signals)
    },
    isFollowing: () => hub.size() > 0
  })
  yield* (yield* Revocations).subscribe({ keysInUse: hub.keys, onEnded: hub.endStreamsOfKeys })

  yield* startWorkers([
    runWorker({
      name: "session_stream_sweep",
      runOnce: Effect.map(sweep, (counts) => ({ counts })),
      every: options.sweep ?? "500 millis",
      firstRun: "after_pause"
    }),
    runWorker({
      name: "session_event_poll",
      runOnce: Effect.suspend(() => {
        signalsLost.closeUnsafe()
        return Effect.map(pollEvents, (behind) => ({ counts: { behind } }))
      }),
      every: options.pollEvents ?? "10 seconds",
      wakeUp: signalsLost.await,
      firstRun: "after_pause"
    })
  ])

  const refusals: Record<StreamRefusal, string> = {
    replica: `Too many open streams on this replica (limit ${maxStreams}). Retry shortly.`,
    organization: `Too many open streams for this organization (limit ${maxPerOrganization} on each replica). Close idle streams.`
  }

  return SessionStream.of({
    open: Effect.fn("SessionStream.open")(function* (id, cursor) {
      const principal = yield* AuthorizedEither("sessions.read", "sessions.write")
      const { actor, org_id } = principal
      const refusal = hub.refusalOf(org_id)
      // Before the query, which a refusal should not cost.
      if (refusal !== undefined) return yield* new Unavailable({ detail: refusals[refusal] })
      yield* facts.requireReadable(principal, id)
      const session = { org_id, session_id: id }
      const state = yield* Effect.orDie(findSessionState(sql, session))
      if (state === undefined) return yield* notFound("session")
      const { closed, newest } = state
      const firstRetained = state.first_retained ?? newest + 1
      const after = cursor ?? firstRetained - 1
      if (after > newest) return yield* cursorBeyondEnd(newest)
      if (after < firstRetained - 1) return yield* cursorExpired(firstRetained)
      if (closed && after === newest) return Option.none()
      return yield* hub.open(session, actor.id, after).pipe(
        Effect.tap(() => Effect.sync(sessionSignals.announce)),
        Effect.asSome,
        // Other streams were opened during the query.
        Effect.mapError((refused) => new Unavailable({ detail: refusals[refused] }))
      )
    }),
    size: Effect.sync(() => hub.size()),
    sweep,
    pollEvents,
    endAll: Effect.sync(() => hub.endAll())
  })
})

/** Ends the stream after a read that cannot succeed: a client that reconnects gets the error as a response. */
const unreadable: ReadResult = { _tag: "Gap" }

const cursorBeyondEnd = (newest: number) => {
  const detail = `The newest event of this session is #${newest}. The cursor is beyond it or from another session.`
  return Effect.fail(new InvalidRequest({ detail, errors: [{ pointer: "#/after", detail }] }))
}

const cursorExpired = (first: number) =>
  Effect.fail(
    new CursorExpired({
      detail: `Events before #${first} were deleted. Read the session and its approvals again, then follow the stream without a cursor.`,
      first_kept: first
    })
  )
