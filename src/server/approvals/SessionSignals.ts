/**
 * Signals that a session has new events: they wake its streams and the console's inbox, on every replica.
 *
 * ```
 *  SessionEvents.append ──after the commit──▶ publish ─┬─▶ followers of this replica
 *                                                      └─▶ NOTIFY, throttled ──LISTEN──▶ followers of other replicas
 *                                                            if another replica has announced followers
 * ```
 *
 * A signal is a hint: followers read the events from the database. A lost signal is made up for by their own polls.
 *
 * A NOTIFY is a transaction that wakes every replica. So a replica sends none unless another one has clients that follow sessions. That one
 * announces them, again and again, as a lease: the announcements of a killed replica run out. On the first announcement a replica sends one
 * signal of all sessions, because it has kept back its signals of commits until then.
 */
import { PgClient } from "@effect/sql-pg"
import { Clock, Context, Effect, Latch, Layer, type Scope } from "effect"
import { SecureRandom } from "effect/crypto"
import type { SessionId } from "../../domain/Ids.ts"
import { monotonicMillis } from "../concurrency/monotonicMillis.ts"
import { runWorker, startWorkers } from "../concurrency/Worker.ts"
import { makePgNotify } from "../store/PgNotify.ts"
import { makeSignalBuffer, parsePayload } from "./SessionSignals/SignalBuffer.ts"

/** A session has events up to this number. */
export interface SessionSignal {
  readonly session_id: SessionId
  readonly newest: number
}

/** A part of this replica that reads the events of sessions when they are signalled. */
export interface SessionFollower {
  /**
   * Runs synchronously and must not throw. `undefined`: every session may have new events, because signals may have been lost or kept
   * back.
   */
  readonly onSignals: (signals: ReadonlyArray<SessionSignal> | undefined) => void
  /** Whether a client waits for signals here. */
  readonly isFollowing: () => boolean
}

/** Between two NOTIFY of one replica, in milliseconds. The first after a pause is sent at once. */
const INTERVAL_MILLIS = 20

/** Between two announcements of a replica with followers, in milliseconds. */
const ANNOUNCE_MILLIS = 10_000

/** How long an announcement holds, in milliseconds: longer than two intervals, so that one of them may be lost. */
const ANNOUNCED_MILLIS = 2.5 * ANNOUNCE_MILLIS

/** Begins the payload of an announcement, which is followed by the name of the replica. */
const ANNOUNCEMENT = "follows "

/** The bus of session signals. */
export class SessionSignals extends Context.Service<
  SessionSignals,
  {
    /** Signals to all followers once the caller's transaction has committed. */
    readonly publish: (signals: ReadonlyArray<SessionSignal>) => Effect.Effect<void>
    /** Subscribes until the scope closes. A replica receives its own signals twice: directly, and by NOTIFY if it sends one. */
    readonly subscribe: (follower: SessionFollower) => Effect.Effect<void, never, Scope.Scope>
    /**
     * Asks the other replicas for their signals. Call it when another client waits for signals. Most calls do
     * nothing, because an announcement holds for some time.
     */
    readonly announce: () => void
  }
>()("countersign/server/approvals/SessionSignals") {
  static readonly layer: Layer.Layer<SessionSignals, never, PgClient.PgClient> = Layer.effect(
    SessionSignals,
    Effect.suspend(() => make)
  )
}

const make = Effect.gen(function* () {
  const sql = yield* PgClient.PgClient
  const clock = yield* Clock.Clock
  const { listen, notify, notifyThrottled } = yield* makePgNotify("countersign_session_events")
  const announcement = `${ANNOUNCEMENT}${SecureRandom.uuidV7Unsafe()}`
  const followers = new Set<SessionFollower>()
  const outgoing = makeSignalBuffer()
  const announceDue = Latch.makeUnsafe(false)
  let announcedAt = Number.NEGATIVE_INFINITY
  /** When the announcements of the other replicas run out, on the monotonic clock. */
  let followedUntil = Number.NEGATIVE_INFINITY

  const broadcast: SessionFollower["onSignals"] = (signals) => {
    for (const { onSignals } of followers) onSignals(signals)
  }

  const isFollowed = () => monotonicMillis(clock) < followedUntil

  const noteFollowed = () => {
    if (!isFollowed()) outgoing.addAllSessions()
    followedUntil = monotonicMillis(clock) + ANNOUNCED_MILLIS
  }

  const receive = (payload: string | undefined) => {
    if (payload?.startsWith(ANNOUNCEMENT) === true) {
      if (payload !== announcement) noteFollowed()
      return
    }
    // Announcements may have been missed before LISTEN began.
    if (payload === undefined) noteFollowed()
    broadcast(payload === undefined ? undefined : parsePayload(payload))
  }

  yield* startWorkers([
    notifyThrottled(outgoing.due, INTERVAL_MILLIS, outgoing.takePayloads),
    listen((payload) => Effect.sync(() => receive(payload))),
    runWorker({
      name: "session_followers",
      runOnce: Effect.suspend(() => {
        const isRequested = announceDue.closeUnsafe()
        if (!isRequested && ![...followers].some(({ isFollowing }) => isFollowing())) return Effect.void
        announcedAt = monotonicMillis(clock)
        return notify([announcement])
      }),
      every: ANNOUNCE_MILLIS,
      wakeUp: announceDue.await
    })
  ])

  return SessionSignals.of({
    publish: (signals) =>
      sql.afterCommit(
        Effect.sync(() => {
          broadcast(signals)
          if (isFollowed()) outgoing.add(signals)
        })
      ),
    subscribe: (follower) =>
      Effect.acquireRelease(
        Effect.sync(() => followers.add(follower)),
        () => Effect.sync(() => followers.delete(follower))
      ),
    announce: () => {
      if (monotonicMillis(clock) - announcedAt >= ANNOUNCE_MILLIS) announceDue.openUnsafe()
    }
  })
})
