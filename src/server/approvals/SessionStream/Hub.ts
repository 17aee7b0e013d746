/**
 * The open streams of this replica, by session. An idle stream costs one object: no fiber, timer or statement of its own.
 *
 * ```
 *     signal: of this replica, by NOTIFY, or found by the poll
 *                    v
 *  waiting ──> reading a page ──> sending it ──client read it──> waiting
 *     │ heartbeat every 15 s          │ not read within 30 s: connection cut
 * ```
 *
 * Backpressure: the next page is read when the socket has accepted the one before, so a stream buffers at most one page.
 */
import { Cause, type Clock, Effect, type Scope, Stream } from "effect"
import type { KeyId, OrgId, SessionId } from "../../../domain/Ids.ts"
import { makeFairSlots } from "../../admission/FairSlots.ts"
import { monotonicMillis } from "../../concurrency/monotonicMillis.ts"
import type { KeyRef } from "../../identity/KeyRef.ts"
import type { SessionSignal } from "../SessionSignals.ts"
import { HEARTBEAT, PREAMBLE } from "../sseFrames.ts"
import type {
  FollowedSession,
  PullResult,
  ReadResult,
  SessionKey,
  SharedRead,
  Subscription
} from "./Subscription.ts"

/** Heartbeats of one sweep. The limit spreads the heartbeats of streams that opened at the same time. */
const HEARTBEATS_PER_SWEEP = 1_000

/** How long the client of a stream that is to end may take to read its last page. */
const LAST_PAGE_MILLIS = 1_000

/** Dependencies of a hub, and its timeouts. */
export interface HubOptions {
  readonly clock: Clock.Clock
  /** Maximum number of open streams. Beyond it, a new stream ends the newest one of the organization with the most. */
  readonly maxStreams: number
  /** Maximum number of open streams of one organization. */
  readonly maxPerOrganization: number
  /** Between two heartbeats of a stream. */
  readonly heartbeatMillis: number
  /** How long a client may take to read one page. */
  readonly sendTimeoutMillis: number
  /** Reads the events after a cursor; retries while `isWanted` returns true. */
  readonly read: (session: SessionKey, after: number, isWanted: () => boolean) => Effect.Effect<ReadResult>
  /** Runs an effect in a fiber of its own. */
  readonly fork: (effect: Effect.Effect<void>) => void
}

/** Why an organization cannot open a stream: the streams of the replica are in use, or its own limit is reached. */
export type StreamRefusal = "replica" | "organization"

/** The open streams of this replica. */
export interface Hub {
  /** The number of open streams. */
  readonly size: () => number
  /** The number of open streams of one organization. */
  readonly sizeOfOrganization: (org_id: OrgId) => number
  /** Why an organization cannot open another stream now; undefined if it can. */
  readonly refusalOf: (org_id: OrgId) => StreamRefusal | undefined
  /**
   * The events of a session after a cursor, for one client. Within the limits, which are checked in one step with the
   * opening; the stream counts from then until it has ended or the scope closes.
   */
  readonly open: (
    session: SessionKey,
    key_id: KeyId,
    cursor: number
  ) => Effect.Effect<Stream.Stream<Uint8Array>, StreamRefusal, Scope.Scope>
  /** Wakes the streams of sessions that have events up to the given numbers. Sessions without streams are skipped. */
  readonly signal: (signals: ReadonlyArray<SessionSignal>) => void
  /** Sends the heartbeats that are due and cuts the connections of slow clients. */
  readonly sweep: () => { readonly heartbeats: number; readonly cut: number }
  /** The sessions that have streams, each with the number of the newest event seen by this replica. */
  readonly followedSessions: () => ReadonlyArray<FollowedSession>
  /** The keys that opened the streams, each once. */
  readonly keys: () => ReadonlyArray<KeyRef>
  /** Ends the streams that these keys opened; returns how many. */
  readonly endStreamsOfKeys: (keys: ReadonlySet<KeyId>) => number
  /** Ends all streams, and every later stream as soon as it opens. */
  readonly endAll: () => void
}

/** A hub without streams. */
export const makeHub = (options: HubOptions): Hub => {
  const sessions = new Map<SessionId, FollowedSession>()
  const subscriptions = new Set<Subscription>()
  const slots = makeFairSlots<OrgId, Subscription>({
    max: options.maxStreams,
    end: (subscription) => end(subscription)
  })
  let isClosed = false

  const now = () => monotonicMillis(options.clock)

  const refusalOf = (org_id: OrgId): StreamRefusal | undefined =>
    !slots.hasSlotFor(org_id)
      ? "replica"
      : slots.sizeOf(org_id) >= options.maxPerOrganization
        ? "organization"
        : undefined

  const subscribe = (session: SessionKey, key_id: KeyId, cursor: number): Subscription => {
    let followed = sessions.get(session.session_id)
    if (followed === undefined) {
      const { org_id, session_id } = session
      followed = { org_id, session_id, subscriptions: new Set(), reads: new Map(), newest: cursor }
      sessions.set(session_id, followed)
    }
    const subscription: Subscription = {
      followed,
      key_id,
      cursor,
      nextChunk: "preamble",
      isReading: false,
      mustRead: true,
      hasEnded: isClosed,
      heartbeatDueAt: now() + options.heartbeatMillis,
      writePendingSince: undefined,
      resume: undefined,
      fiber: undefined
    }
    followed.subscriptions.add(subscription)
    subscriptions.add(subscription)
    slots.add(session.org_id, subscription)
    return subscription
  }

  const unsubscribe = (subscription: Subscription): void => {
    const { followed } = subscription
    const { org_id, session_id } = followed
    subscription.hasEnded = true
    subscription.fiber = undefined
    subscriptions.delete(subscription)
    slots.remove(org_id, subscription)
    followed.subscriptions.delete(subscription)
    if (followed.subscriptions.size === 0 && sessions.get(session_id) === followed)
      sessions.delete(session_id)
  }

  /** Takes the next bytes of a stream, or its end; undefined if the stream has to wait. */
  const takeNext = (subscription: Subscription): PullResult | undefined => {
    const { nextChunk } = subscription
    if (nextChunk === "preamble") return send(subscription, PREAMBLE)
    if (subscription.hasEnded) return Cause.done()
    if (nextChunk === undefined) return undefined
    subscription.cursor = nextChunk.last
    subscription.hasEnded = nextChunk.closes
    return send(subscription, nextChunk.bytes)
  }

  const send = (subscription: Subscription, bytes: Uint8Array): PullResult => {
    subscription.nextChunk = undefined
    subscription.writePendingSince = now()
    return Effect.succeed([bytes])
  }

  /** One pull of a stream. The HTTP server pulls again when the socket has accepted the bytes before. */
  const pull = (subscription: Subscription): PullResult =>
    Effect.withFiber((fiber): PullResult => {
      subscription.fiber = fiber
      subscription.writePendingSince = undefined
      return (
        takeNext(subscription) ??
        Effect.callback((resume) => {
          subscription.resume = resume
          readIfBehind(subscription)
        })
      )
    })

  /** Resumes the pull that waits, if there is one and there is something to send. */
  const resumePull = (subscription: Subscription): void => {
    const { resume } = subscription
    if (resume === undefined) return
    const result = takeNext(subscription)
    if (result === undefined) return
    subscription.resume = undefined
    resume(result)
  }

  /** Starts the read of a page for a stream that waits and is behind. Streams of one session at the same cursor share a read. */
  const readIfBehind = (subscription: Subscription): void => {
    const { followed, cursor } = subscription
    if (subscription.isReading || subscription.resume === undefined) return
    if (!subscription.mustRead && followed.newest <= cursor) return
    subscription.isReading = true
    const shared = followed.reads.get(cursor)
    if (shared !== undefined) {
      shared.subscriptions.push(subscription)
      return
    }
    const started: SharedRead = { subscriptions: [subscription], newestAtStart: followed.newest }
    followed.reads.set(cursor, started)
    const isWanted = () => started.subscriptions.some(({ hasEnded }) => !hasEnded)
    options.fork(
      Effect.map(options.read(followed, cursor, isWanted), (result) => {
        followed.reads.delete(cursor)
        const { newest } = followed
        updateNewest(followed, started.newestAtStart, result)
        for (const one of started.subscriptions) deliver(one, result)
        // The signal of these events is still to come, and then changes nothing; nor does the poll find them.
        if (followed.newest > newest) followed.subscriptions.forEach(readIfBehind)
      })
    )
  }

  /**
   * A read can raise the newest number. If a premature signal has raised it too far, a read lowers it again, unless another signal arrived
   * during the read.
   */
  const updateNewest = (followed: FollowedSession, newestAtStart: number, result: ReadResult): void => {
    if (result._tag === "EventsRead") followed.newest = Math.max(followed.newest, result.newest)
    if (result._tag === "UpToDate" && followed.newest === newestAtStart) followed.newest = result.newest
  }

  const deliver = (subscription: Subscription, result: ReadResult): void => {
    subscription.isReading = false
    subscription.mustRead = false
    switch (result._tag) {
      case "EventsRead":
        subscription.nextChunk = result
        return resumePull(subscription)
      case "UpToDate":
        return readIfBehind(subscription)
      case "Gap":
        // A client that reconnects gets 410 CURSOR_EXPIRED, or 404 if the session was deleted.
        return end(subscription)
    }
  }

  const end = (subscription: Subscription): void => {
    subscription.hasEnded = true
    if (subscription.resume !== undefined) resumePull(subscription)
    // The stream ends when the client has read its last page; moving the timestamp back leaves it LAST_PAGE_MILLIS for that.
    else if (subscription.writePendingSince !== undefined) {
      const elapsed = options.sendTimeoutMillis - LAST_PAGE_MILLIS
      subscription.writePendingSince = Math.min(subscription.writePendingSince, now() - elapsed)
    }
  }

  return {
    size: () => subscriptions.size,
    sizeOfOrganization: slots.sizeOf,
    refusalOf,
    open: (session, key_id, cursor) =>
      Effect.map(
        // A stream that never runs, because the client has disconnected or sent HEAD, ends with the scope.
        Effect.acquireRelease(
          Effect.suspend(() => {
            const refusal = refusalOf(session.org_id)
            return refusal === undefined
              ? Effect.succeed(subscribe(session, key_id, cursor))
              : Effect.fail(refusal)
          }),
          (subscription) => Effect.sync(() => unsubscribe(subscription))
        ),
        (subscription) =>
          Stream.ensuring(
            Stream.fromPull(Effect.succeed(pull(subscription))),
            Effect.sync(() => unsubscribe(subscription))
          )
      ),
    signal: (signals) => {
      for (const { newest, session_id } of signals) {
        const followed = sessions.get(session_id)
        if (followed === undefined || followed.newest >= newest) continue
        followed.newest = newest
        followed.subscriptions.forEach(readIfBehind)
      }
    },
    sweep: () => {
      const time = now()
      let heartbeats = 0
      let cut = 0
      for (const subscription of subscriptions) {
        const { heartbeatDueAt, resume, writePendingSince } = subscription
        if (writePendingSince !== undefined && time - writePendingSince >= options.sendTimeoutMillis) {
          cut++
          subscription.fiber?.interruptUnsafe()
        } else if (resume !== undefined && heartbeatDueAt <= time && heartbeats < HEARTBEATS_PER_SWEEP) {
          heartbeats++
          subscription.heartbeatDueAt = time + options.heartbeatMillis
          subscription.resume = undefined
          resume(send(subscription, HEARTBEAT))
        }
      }
      return { heartbeats, cut }
    },
    followedSessions: () => [...sessions.values()],
    keys: () => {
      const keys = new Map<KeyId, KeyRef>()
      for (const { followed, key_id } of subscriptions) {
        if (!keys.has(key_id)) keys.set(key_id, { org_id: followed.org_id, key_id })
      }
      return [...keys.values()]
    },
    endStreamsOfKeys: (keys) => {
      const ended = [...subscriptions].filter(({ key_id }) => keys.has(key_id))
      ended.forEach(end)
      return ended.length
    },
    endAll: () => {
      isClosed = true
      subscriptions.forEach(end)
    }
  }
}
