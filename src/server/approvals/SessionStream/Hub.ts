/**
 * Who follows which session in this process. A quiet subscriber costs an object: no fiber, timer or statement of its own.
 *
 * ```
 *     signal: in process, by NOTIFY, by the check
 *                    v
 *  waiting ──> reading a page ──> sending it ──the socket took it──> waiting
 *     │ a comment every 15 s          │ not taken for 30 s: cut
 * ```
 *
 * The next page is read when the socket has taken the one before: what a subscriber holds of this process's memory is one page.
 */
import { Cause, type Clock, Effect, Stream } from "effect"
import type { KeyId, OrgId, SessionId } from "../../../domain/Ids.ts"
import { monotonicMillis } from "../../concurrency/monotonicMillis.ts"
import type { SessionSignal } from "../SessionSignals.ts"
import { HEARTBEAT, PREAMBLE } from "./sseFrames.ts"
import type { PullResult, FollowedSession, ReadResult, SessionKey, Subscription } from "./Subscription.ts"

/** Comments of one sweep: those of many streams that began together spread out over time. */
const COMMENTS_PER_SWEEP = 1_000

/** How long the socket of a stream that is to end may take for what it was handed. */
const LAST_WORDS_MS = 1_000

/** Where a hub reads, and how it paces itself. */
export interface HubOptions {
  readonly clock: Clock.Clock
  /** Milliseconds between two comments of a stream. */
  readonly heartbeatMillis: number
  /** Milliseconds that a socket may take for one page. */
  readonly sendTimeoutMillis: number
  /** Reads the events after a cursor, trying until it can or nobody wants them any more. */
  readonly read: (session: SessionKey, after: number, wanted: () => boolean) => Effect.Effect<ReadResult>
  /** Runs a reading beside everything else. */
  readonly fork: (reading: Effect.Effect<void>) => void
}

/** The open streams of this process. */
export interface Hub {
  /** How many streams are open. */
  readonly size: () => number
  /** How many of them are of an organization. */
  readonly sizeOfOrganization: (org_id: OrgId) => number
  /** A session's events after a cursor, for one reader, who is known here while the stream runs. */
  readonly stream: (session: SessionKey, key_id: KeyId, cursor: number) => Stream.Stream<Uint8Array>
  /** Sessions have events up to a number. Those that nobody follows are passed over. */
  readonly signal: (signals: ReadonlyArray<SessionSignal>) => void
  /** Sends the comments that are due, and cuts those who do not read. */
  readonly sweep: () => { readonly comments: number; readonly cut: number }
  /** The sessions followed, each with the newest event heard of. */
  readonly followedSessions: () => ReadonlyArray<FollowedSession>
  /** The keys in whose name streams are open, each once. */
  readonly keys: () => ReadonlyArray<{ readonly org_id: OrgId; readonly key_id: KeyId }>
  /** Ends the streams of these keys; answers with how many there were. */
  readonly endStreamsOfKeys: (keys: ReadonlySet<KeyId>) => number
  /** Ends all streams, and every later one when it begins. */
  readonly endAll: () => void
}

/** A hub without subscribers. */
export const makeHub = (options: HubOptions): Hub => {
  const sessions = new Map<SessionId, FollowedSession>()
  const subscriptions = new Set<Subscription>()
  const sizes = new Map<OrgId, number>()
  let over = false

  const now = () => monotonicMillis(options.clock)

  const sizeOf = (org_id: OrgId): number => sizes.get(org_id) ?? 0

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
      nextChunk: "opening",
      isReading: false,
      mustRead: true,
      hasEnded: over,
      heartbeatDueAt: now() + options.heartbeatMillis,
      writePendingSince: undefined,
      resume: undefined,
      fiber: undefined
    }
    followed.subscriptions.add(subscription)
    subscriptions.add(subscription)
    sizes.set(session.org_id, sizeOf(session.org_id) + 1)
    return subscription
  }

  const unsubscribe = (subscription: Subscription): void => {
    const { followed } = subscription
    subscription.hasEnded = true
    subscription.fiber = undefined
    subscriptions.delete(subscription)
    if (sizeOf(followed.org_id) > 1) sizes.set(followed.org_id, sizeOf(followed.org_id) - 1)
    else sizes.delete(followed.org_id)
    followed.subscriptions.delete(subscription)
    if (followed.subscriptions.size === 0 && sessions.get(followed.session_id) === followed) {
      sessions.delete(followed.session_id)
    }
  }

  /** What is sent next, if there is something. */
  const next = (subscription: Subscription): PullResult | undefined => {
    const { nextChunk } = subscription
    if (nextChunk === "opening") return hand(subscription, PREAMBLE)
    if (subscription.hasEnded) return Cause.done()
    if (nextChunk === undefined) return undefined
    subscription.cursor = nextChunk.last
    subscription.hasEnded = nextChunk.closes
    return hand(subscription, nextChunk.bytes)
  }

  const hand = (subscription: Subscription, bytes: Uint8Array): PullResult => {
    subscription.nextChunk = undefined
    subscription.writePendingSince = now()
    return Effect.succeed([bytes])
  }

  const pull = (subscription: Subscription): PullResult =>
    Effect.withFiber((fiber): PullResult => {
      subscription.fiber = fiber
      subscription.writePendingSince = undefined
      return (
        next(subscription) ??
        Effect.callback((resume) => {
          subscription.resume = resume
          demand(subscription)
        })
      )
    })

  /** Answers the pull that waits, if one does and there is something to say. */
  const settle = (subscription: Subscription): void => {
    const { resume } = subscription
    if (resume === undefined) return
    const answer = next(subscription)
    if (answer === undefined) return
    subscription.resume = undefined
    resume(answer)
  }

  /** Has a page read for a subscriber who waits and lags behind. */
  const demand = (subscription: Subscription): void => {
    const { followed, cursor } = subscription
    if (subscription.isReading || subscription.resume === undefined) return
    if (!subscription.mustRead && followed.newest <= cursor) return
    subscription.isReading = true
    const shared = followed.reads.get(cursor)
    if (shared !== undefined) {
      shared.subscriptions.push(subscription)
      return
    }
    const begun = { subscriptions: [subscription], newestAtStart: followed.newest }
    followed.reads.set(cursor, begun)
    const wanted = () => begun.subscriptions.some(({ hasEnded }) => !hasEnded)
    options.fork(
      Effect.map(options.read(followed, cursor, wanted), (reading) => {
        followed.reads.delete(cursor)
        learn(followed, begun.newestAtStart, reading)
        for (const reader of begun.subscriptions) deliver(reader, reading)
      })
    )
  }

  /** What a reading says of the session: more than was heard of, or, when we were told too early, less. */
  const learn = (followed: FollowedSession, heard: number, reading: ReadResult): void => {
    if (reading._tag === "EventsRead") followed.newest = Math.max(followed.newest, reading.newest)
    if (reading._tag === "Nothing" && followed.newest === heard) followed.newest = reading.newest
  }

  const deliver = (subscription: Subscription, reading: ReadResult): void => {
    subscription.isReading = false
    subscription.mustRead = false
    switch (reading._tag) {
      case "EventsRead":
        subscription.nextChunk = reading
        return settle(subscription)
      case "Nothing":
        return demand(subscription)
      case "Gap":
        // Who connects again is told that the cursor has expired.
        return end(subscription)
    }
  }

  const end = (subscription: Subscription): void => {
    subscription.hasEnded = true
    if (subscription.resume !== undefined) settle(subscription)
    // It ends when the socket has taken what it was handed, for which there is little time left.
    else if (subscription.writePendingSince !== undefined) {
      const left = options.sendTimeoutMillis - LAST_WORDS_MS
      subscription.writePendingSince = Math.min(subscription.writePendingSince, now() - left)
    }
  }

  return {
    size: () => subscriptions.size,
    sizeOfOrganization: sizeOf,
    stream: (session, key_id, cursor) =>
      Stream.unwrap(
        Effect.map(
          Effect.acquireRelease(
            Effect.sync(() => subscribe(session, key_id, cursor)),
            (subscription) => Effect.sync(() => unsubscribe(subscription))
          ),
          (subscription) => Stream.fromPull(Effect.succeed(pull(subscription)))
        )
      ),
    signal: (signals) => {
      for (const { newest, session_id } of signals) {
        const followed = sessions.get(session_id)
        if (followed === undefined || followed.newest >= newest) continue
        followed.newest = newest
        followed.subscriptions.forEach(demand)
      }
    },
    sweep: () => {
      const time = now()
      let comments = 0
      let cut = 0
      for (const subscription of subscriptions) {
        const { resume, writePendingSince } = subscription
        if (writePendingSince !== undefined && time - writePendingSince >= options.sendTimeoutMillis) {
          cut++
          subscription.fiber?.interruptUnsafe()
        } else if (
          resume !== undefined &&
          subscription.heartbeatDueAt <= time &&
          comments < COMMENTS_PER_SWEEP
        ) {
          comments++
          subscription.heartbeatDueAt = time + options.heartbeatMillis
          subscription.resume = undefined
          resume(hand(subscription, HEARTBEAT))
        }
      }
      return { comments, cut }
    },
    followedSessions: () => [...sessions.values()],
    keys: () => {
      const keys = new Map<KeyId, { readonly org_id: OrgId; readonly key_id: KeyId }>()
      for (const { followed, key_id } of subscriptions) {
        if (!keys.has(key_id)) keys.set(key_id, { org_id: followed.org_id, key_id })
      }
      return [...keys.values()]
    },
    endStreamsOfKeys: (keys) => {
      const held = [...subscriptions].filter(({ key_id }) => keys.has(key_id))
      held.forEach(end)
      return held.length
    },
    endAll: () => {
      over = true
      subscriptions.forEach(end)
    }
  }
}
