import { type Cause, Context, Effect, Latch, Layer, Queue, Schedule, Stream } from "effect"
import { SqlClient } from "effect/sql"
import { Authorized } from "../../api/Authorization.ts"
import { notFound } from "../../api/notFound.ts"
import { type Inbox, INBOX_FIRST_PAGE, INBOX_PAGE, type InboxItem } from "../../api/Console.ts"
import { type NotFound, Unavailable } from "../../api/Problems.ts"
import type { ApprovalId, KeyId, OrgId, SessionId } from "../../domain/Ids.ts"
import type { Timestamp } from "../../domain/Time.ts"
import { changedApprovals, pendingByDeadline } from "./ApprovalFeed/rows.ts"
import { findApproval, toApproval } from "../approvals/Approvals/rows.ts"
import { type SessionSignal, SessionSignals } from "../approvals/SessionSignals.ts"
import { HEARTBEAT } from "../approvals/SessionStream/sseFrames.ts"
import { StoreClock } from "../store/StoreClock.ts"

/** Open feeds of this process: people with the console open. */
const MAX_SUBSCRIBERS = 1_000

/** Of them those of one organization, and of one key in it: nobody takes the places of the others. */
const MAX_PER_ORGANIZATION = 500
const MAX_PER_KEY = 100

/** Words that a reader may be behind. One more and its feed ends: it connects again and reads the inbox anew. */
const MAX_BUFFERED = 2_000

/** Sessions gathered for one reading; past that, readers are told to look anew. */
const MAX_PENDING_SESSIONS = 5_000

/** Sessions whose newest number is remembered, so that a reading begins after it. */
const MAX_READ_POSITIONS = 10_000

/** How long signals are gathered into one reading. */
const DEBOUNCE = "20 millis"

/** How often a feed shows that it lives. */
const HEARTBEAT_INTERVAL = "10 seconds"

/**
 * What waits for a person in an organization, and word of each change in it: for the console, whose inbox is of no one session. Woken by
 * the signals that wake session streams; one reading serves all who follow. A word that is lost is made good: whoever may have missed
 * one is told to read the inbox anew.
 */
export class ApprovalFeed extends Context.Service<
  ApprovalFeed,
  {
    /** What waits, in the order in which it closes, after the given one. */
    readonly list: (after: {
      readonly after?: Timestamp
      readonly after_id?: ApprovalId
    }) => Effect.Effect<Inbox, never, Authorized<"approvals.read">>
    /** One of them, or one that is closed, with its arguments. */
    readonly get: (id: ApprovalId) => Effect.Effect<InboxItem, NotFound, Authorized<"approvals.read">>
    /** Changes from now on, as server-sent events: `approval` with its snapshot, `resync` when some may have been missed. */
    readonly open: Effect.Effect<Stream.Stream<Uint8Array>, Unavailable, Authorized<"approvals.read">>
    /** Ends every feed, so that browsers go elsewhere; a feed that is opened later ends at once. */
    readonly endAll: Effect.Effect<void>
  }
>()("countersign/server/console/ApprovalFeed") {
  static readonly layer = Layer.effect(
    ApprovalFeed,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const clock = yield* StoreClock
      const signals = yield* SessionSignals
      const feeds = new Set<FeedSubscriber>()
      const gathered = makeSignalBuffer()
      let over = false

      const broadcast = (bytes: Uint8Array, org_id?: OrgId) => {
        for (const feed of feeds) {
          if (org_id !== undefined && feed.org_id !== org_id) continue
          if (!Queue.offerUnsafe(feed.queue, bytes)) end(feed)
        }
      }

      const end = (feed: FeedSubscriber) => {
        feeds.delete(feed)
        Queue.endUnsafe(feed.queue)
      }

      /** A place among the feeds, for as long as the stream runs. */
      const follow = Effect.fnUntraced(function* (org_id: OrgId, key_id: KeyId) {
        const queue = yield* Queue.dropping<Uint8Array, Cause.Done>(MAX_BUFFERED)
        const feed: FeedSubscriber = { org_id, key_id, queue }
        Queue.offerUnsafe(queue, OPENING)
        if (over) Queue.endUnsafe(queue)
        else feeds.add(feed)
        return feed
      })

      const isFull = (org_id: OrgId, key_id: KeyId): boolean => {
        const ofOrganization = [...feeds].filter((feed) => feed.org_id === org_id)
        const ofKey = ofOrganization.filter((feed) => feed.key_id === key_id)
        return (
          feeds.size >= MAX_SUBSCRIBERS ||
          ofOrganization.length >= MAX_PER_ORGANIZATION ||
          ofKey.length >= MAX_PER_KEY
        )
      }

      const read = Effect.gen(function* () {
        const sessions = gathered.take()
        if (sessions === undefined) return broadcast(RESYNC)
        const followed = [...new Set([...feeds].map(({ org_id }) => org_id))]
        if (followed.length === 0 || sessions.length === 0) return
        const changed = yield* changedApprovals(sql, followed, sessions, yield* clock.now)
        for (const [org_id, snapshots] of Map.groupBy(changed, (row) => row.org_id)) {
          const events = snapshots.map(({ approval }) => `event: approval\ndata: ${approval}\n\n`)
          broadcast(Buffer.from(events.join("")), org_id)
        }
      }).pipe(
        Effect.catchCause((cause) =>
          Effect.andThen(
            Effect.logDebug("Changes of approvals could not be read", cause),
            Effect.sync(() => broadcast(RESYNC))
          )
        )
      )

      yield* signals.subscribe((signals) => {
        if (feeds.size > 0) gathered.add(signals)
      })
      yield* Effect.forkScoped(
        Effect.forever(Effect.andThen(gathered.some, Effect.andThen(Effect.sleep(DEBOUNCE), read)))
      )
      yield* Effect.forkScoped(
        Effect.schedule(
          Effect.sync(() => broadcast(HEARTBEAT)),
          Schedule.spaced(HEARTBEAT_INTERVAL)
        )
      )

      return ApprovalFeed.of({
        list: Effect.fn("ApprovalFeed.list")(function* ({ after, after_id }) {
          const { org_id } = yield* Authorized("approvals.read")
          const most = after === undefined ? INBOX_FIRST_PAGE : INBOX_PAGE
          const approvals = yield* Effect.orDie(pendingByDeadline(sql, org_id, most + 1, after, after_id))
          return { approvals: approvals.slice(0, most), more: approvals.length > most }
        }),
        get: Effect.fn("ApprovalFeed.get")(function* (id) {
          const { actor, org_id } = yield* Authorized("approvals.read")
          const row = yield* Effect.orDie(findApproval(sql, org_id, id))
          if (row === undefined) return yield* notFound("approval")
          return {
            approval: toApproval(row),
            own_request: !row.self_approval && row.requested_by_id === actor.id
          }
        }),
        open: Effect.gen(function* () {
          const { actor, org_id } = yield* Authorized("approvals.read")
          if (isFull(org_id, actor.id)) {
            return yield* new Unavailable({ detail: "Too many feeds are open; close some" })
          }
          // Who asked may be gone before the stream begins, or want its head alone: only a stream that runs has a place.
          return Stream.unwrap(
            Effect.map(
              Effect.acquireRelease(follow(org_id, actor.id), (feed) => Effect.sync(() => end(feed))),
              ({ queue }) => Stream.fromQueue(queue)
            )
          )
        }),
        endAll: Effect.sync(() => {
          over = true
          for (const feed of feeds) end(feed)
        })
      })
    })
  )

  /** Ends the feeds when its scope closes: built over the listening server, before that waits for open requests. */
  static readonly layerEndAtStop: Layer.Layer<never, never, ApprovalFeed> = Layer.effectDiscard(
    Effect.flatMap(ApprovalFeed, ({ endAll }) => Effect.addFinalizer(() => endAll))
  )
}

/** Somebody who follows an organization's approvals. */
interface FeedSubscriber {
  readonly org_id: OrgId
  readonly key_id: KeyId
  readonly queue: Queue.Queue<Uint8Array, Cause.Done>
}

/** Server-sent events (WHATWG HTML, 9.2): after a break, connect again after two seconds. */
const OPENING = Buffer.from("retry: 2000\n\n")
const RESYNC = Buffer.from("event: resync\ndata: {}\n\n")

/** What is to be read: of each session its events after the number that was read last. */
const makeSignalBuffer = () => {
  const latch = Latch.makeUnsafe()
  const told = new Map<SessionId, number>()
  const remembered = new Map<SessionId, number>()
  let lost = false
  return {
    add: (signals: ReadonlyArray<SessionSignal> | undefined) => {
      for (const { newest, session_id } of signals ?? []) {
        if (newest > (remembered.get(session_id) ?? 0)) {
          told.set(session_id, Math.max(newest, told.get(session_id) ?? 0))
        }
      }
      if (signals === undefined || told.size > MAX_PENDING_SESSIONS) lost = true
      if (lost || told.size > 0) latch.openUnsafe()
    },
    some: latch.await,
    /** Undefined: too much to read, or something was lost. */
    take: () => {
      latch.closeUnsafe()
      const sessions = lost
        ? undefined
        : [...told].map(([session_id, newest]) => ({
            session_id,
            newest,
            after: remembered.get(session_id) ?? 0
          }))
      for (const [session_id, newest] of told) {
        remembered.delete(session_id)
        remembered.set(session_id, newest)
        const [oldest] = remembered.keys()
        if (remembered.size > MAX_READ_POSITIONS && oldest !== undefined) remembered.delete(oldest)
      }
      told.clear()
      lost = false
      return sessions
    }
  }
}
