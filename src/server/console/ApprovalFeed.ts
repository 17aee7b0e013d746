import { type Cause, Context, Duration, Effect, Layer, Queue, Stream } from "effect"
import { SqlClient } from "effect/sql"
import { Authorized } from "../../api/Authorization.ts"
import { notFound } from "../../api/notFound.ts"
import {
  type ApprovalContext,
  type ComparedItem,
  type Inbox,
  INBOX_FIRST_PAGE,
  INBOX_PAGE,
  INBOX_PING_MS,
  type InboxItem,
  MAX_EARLIER_STEPS
} from "../../api/Console.ts"
import type { PendingCount } from "../../api/console/PendingCount.ts"
import { type NotFound, Unavailable } from "../../api/Problems.ts"
import type { ApprovalId, KeyId, OrgId } from "../../domain/Ids.ts"
import { isOwnRequest } from "../../domain/approvals/ApprovalState.ts"
import { findConditionalRules } from "../../domain/approvals/findConditionalRules.ts"
import { findSimilarRule } from "../../domain/approvals/findSimilarRule.ts"
import type { Timestamp } from "../../domain/Time.ts"
import {
  changedApprovals,
  changedJson,
  comparedApprovals,
  listedJson,
  pendingByDeadline
} from "./ApprovalFeed/rows.ts"
import {
  findContext,
  findEarlierSteps,
  findToolHistory,
  toContextOutcome,
  toEarlierStep
} from "./ApprovalFeed/contextRows.ts"
import { countPending } from "./ApprovalFeed/countPending.ts"
import { makeSignalBuffer } from "./ApprovalFeed/SignalBuffer.ts"
import { findApproval, toApproval } from "../approvals/approvalRows.ts"
import { Rules } from "../approvals/Rules.ts"
import { SessionSignals } from "../approvals/SessionSignals.ts"
import { makeFairSlots } from "../admission/FairSlots.ts"
import { runWorker, startWorkers } from "../concurrency/Worker.ts"
import { StoreClock } from "../store/StoreClock.ts"

/**
 * The most feeds of this replica, which is about one per open console. If all are in use, a new one replaces a feed of
 * the organization that has the most, so that a few organizations cannot use up the limit for all.
 */
const MAX_SUBSCRIBERS = 1_000

/** The most feeds of one organization, and of one API key in it. */
const MAX_PER_ORGANIZATION = 500
const MAX_PER_KEY = 100

/** The most frames that are buffered for a slow subscriber. One more ends its feed; the browser reconnects and refetches the inbox. */
const MAX_BUFFERED = 2_000

/** How long signals are coalesced before one read. */
const DEBOUNCE = "20 millis"

/**
 * The pending approvals of an organization and a stream of their changes, for the inbox of the console, which spans all sessions. The
 * signals that wake session streams also wake this feed; one query serves all subscribers. If a change may have been missed, subscribers
 * get a `resync` event and refetch the inbox.
 */
export class ApprovalFeed extends Context.Service<
  ApprovalFeed,
  {
    /** A page of pending approvals sorted by deadline, after the given deadline and id. */
    readonly list: (after: {
      readonly after?: Timestamp
      readonly after_id?: ApprovalId
    }) => Effect.Effect<Inbox, never, Authorized<"approvals.read">>
    /** One approval, pending or closed, with its arguments. */
    readonly get: (id: ApprovalId) => Effect.Effect<InboxItem, NotFound, Authorized<"approvals.read">>
    /** Who asks, why a person is asked, for whom, and the earlier steps of the session. */
    readonly context: (
      id: ApprovalId
    ) => Effect.Effect<ApprovalContext, NotFound, Authorized<"approvals.read">>
    /** The compared parts of these approvals, for deciding them together, in this order. */
    readonly compare: (
      ids: ReadonlyArray<ApprovalId>
    ) => Effect.Effect<ReadonlyArray<ComparedItem>, never, Authorized<"approvals.read">>
    /** How many pending approvals the principal can approve now. */
    readonly count: Effect.Effect<PendingCount, never, Authorized<"approvals.read">>
    /**
     * A stream of changes as server-sent events: `approval` with a snapshot; `resync` if changes may have been missed;
     * `ping` every `INBOX_PING_MS`.
     */
    readonly open: Effect.Effect<Stream.Stream<Uint8Array>, Unavailable, Authorized<"approvals.read">>
    /** Ends every feed, so that browsers reconnect to another replica. Feeds opened later end immediately. */
    readonly endAll: Effect.Effect<void>
  }
>()("countersign/server/console/ApprovalFeed") {
  static readonly layer = Layer.effect(
    ApprovalFeed,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const clock = yield* StoreClock
      const sessionSignals = yield* SessionSignals
      const rules = yield* Rules
      const subscribers = new Set<FeedSubscriber>()
      const buffer = makeSignalBuffer()
      let isShutDown = false

      const broadcast = (bytes: Uint8Array, to?: Pick<FeedSubscriber, "canReadSessions" | "org_id">) => {
        for (const subscriber of subscribers) {
          if (to !== undefined && subscriber.org_id !== to.org_id) continue
          if (to !== undefined && subscriber.canReadSessions !== to.canReadSessions) continue
          if (!Queue.offerUnsafe(subscriber.queue, bytes)) end(subscriber)
        }
      }

      const slots = makeFairSlots<OrgId, FeedSubscriber>({
        max: MAX_SUBSCRIBERS,
        end: (subscriber) => end(subscriber)
      })

      const end = (subscriber: FeedSubscriber) => {
        subscribers.delete(subscriber)
        slots.remove(subscriber.org_id, subscriber)
        Queue.endUnsafe(subscriber.queue)
      }

      const isFull = (org_id: OrgId, key_id: KeyId): boolean => {
        let ofKey = 0
        for (const subscriber of subscribers) if (subscriber.key_id === key_id) ofKey++
        return (
          slots.sizeOf(org_id) >= MAX_PER_ORGANIZATION || ofKey >= MAX_PER_KEY || !slots.hasSlotFor(org_id)
        )
      }

      /**
       * Adds a subscriber, which counts towards the limits until its stream ends. If others have reached a limit since the
       * request was admitted, its stream ends immediately, and the browser's next request is refused.
       */
      const subscribe = Effect.fnUntraced(function* (
        of: Pick<FeedSubscriber, "canReadSessions" | "key_id" | "org_id">
      ) {
        const { key_id, org_id } = of
        const queue = yield* Queue.dropping<Uint8Array, Cause.Done>(MAX_BUFFERED)
        const subscriber: FeedSubscriber = { ...of, queue }
        Queue.offerUnsafe(queue, OPENING)
        if (isShutDown || isFull(org_id, key_id)) Queue.endUnsafe(queue)
        else {
          slots.add(org_id, subscriber)
          subscribers.add(subscriber)
          sessionSignals.announce()
        }
        return subscriber
      })

      const publishChanges = Effect.gen(function* () {
        const sessions = buffer.take()
        if (sessions === undefined) return broadcast(RESYNC)
        const organizations = [...new Set([...subscribers].map(({ org_id }) => org_id))]
        if (organizations.length === 0 || sessions.length === 0) return
        const changed = yield* changedApprovals(sql, organizations, sessions, yield* clock.now)
        for (const [org_id, snapshots] of Map.groupBy(changed, (row) => row.org_id)) {
          for (const canReadSessions of [true, false]) {
            const spoken = snapshots.flatMap(({ approval, approval_id }) =>
              approval === null ? [approval_id] : []
            )
            const events = [
              ...snapshots.flatMap((row) =>
                row.approval === null ? [] : [changedJson(row.approval, row, canReadSessions)]
              ),
              ...(yield* listedJson(sql, org_id, spoken, canReadSessions))
            ].map((json) => `event: approval\ndata: ${json}\n\n`)
            broadcast(Buffer.from(events.join("")), { org_id, canReadSessions })
          }
        }
      })

      yield* sessionSignals.subscribe({
        onSignals: (signals) => {
          if (subscribers.size > 0) buffer.add(signals)
        },
        isFollowing: () => subscribers.size > 0
      })
      yield* startWorkers([
        runWorker({
          name: "approval_feed",
          runOnce: publishChanges,
          wakeUp: Effect.andThen(buffer.awaitNonEmpty, Effect.sleep(DEBOUNCE)),
          // The failed run has emptied the buffer, so its changes are lost to the subscribers.
          onFailure: () => Effect.sync(() => broadcast(RESYNC))
        }),
        runWorker({
          name: "approval_feed_heartbeat",
          runOnce: Effect.sync(() => broadcast(PING)),
          every: Duration.millis(INBOX_PING_MS),
          firstRun: "after_pause"
        })
      ])

      return ApprovalFeed.of({
        list: Effect.fn("ApprovalFeed.list")(function* ({ after, after_id }) {
          const { org_id, scopes } = yield* Authorized("approvals.read")
          const canReadSessions = scopes.has("sessions.read")
          const limit = after === undefined ? INBOX_FIRST_PAGE : INBOX_PAGE
          const approvals = yield* Effect.orDie(
            pendingByDeadline(sql, org_id, limit + 1, after, after_id, canReadSessions)
          )
          return { approvals: approvals.slice(0, limit), more: approvals.length > limit }
        }),
        get: Effect.fn("ApprovalFeed.get")(function* (id) {
          const principal = yield* Authorized("approvals.read")
          const { org_id } = principal
          const row = yield* Effect.orDie(findApproval(sql, org_id, id))
          if (row === undefined) return yield* notFound("approval")
          return {
            approval: toApproval(row),
            own_request: !row.self_approval && isOwnRequest(row.requested_by_id, principal)
          }
        }),
        context: Effect.fn("ApprovalFeed.context")(function* (id) {
          const { org_id, scopes } = yield* Authorized("approvals.read")
          const row = yield* Effect.orDie(findContext(sql, org_id, id))
          if (row === undefined) return yield* notFound("approval")
          const [{ rules: list }, tool_history] = yield* Effect.all(
            [rules.cached(org_id), Effect.orDie(findToolHistory(sql, org_id, id, row.tool))],
            { concurrency: 2 }
          )
          const index = list.findIndex((rule) => rule.id === row.rule_id)
          const context = {
            requested_by: { id: row.requested_by_id, name: row.requested_by_name ?? row.requested_by_id },
            reason: row.reason,
            rule_id: row.rule_id,
            rule_number: index < 0 ? null : index + 1,
            similar_rule: findSimilarRule(list, row.tool, row.rule_id) ?? null,
            conditional_rules: findConditionalRules(list, row, index),
            tool_history
          }
          if (!scopes.has("sessions.read")) return { ...context, session: null }
          const earlier = yield* Effect.orDie(findEarlierSteps(sql, org_id, row))
          return {
            ...context,
            session: {
              metadata: row.metadata,
              outcome: toContextOutcome(row),
              earlier_steps: earlier.slice(0, MAX_EARLIER_STEPS).map(toEarlierStep).toReversed(),
              more: earlier.length > MAX_EARLIER_STEPS
            }
          }
        }),
        compare: Effect.fn("ApprovalFeed.compare")(function* (ids) {
          const principal = yield* Authorized("approvals.read")
          const rows = yield* Effect.orDie(comparedApprovals(sql, principal.org_id, ids))
          return rows.map((row) => ({
            approval_id: row.approval_id,
            own_request: !row.self_approval && isOwnRequest(row.requested_by_id, principal),
            requested_by: { id: row.requested_by_id, name: row.requested_by_name ?? row.requested_by_id },
            arguments_bytes: row.arguments_bytes,
            arguments_json: row.arguments
          }))
        }),
        count: Effect.gen(function* () {
          return yield* Effect.orDie(countPending(sql, yield* Authorized("approvals.read")))
        }).pipe(Effect.withSpan("ApprovalFeed.count")),
        open: Effect.gen(function* () {
          const { actor, org_id, scopes } = yield* Authorized("approvals.read")
          if (isFull(org_id, actor.id)) {
            return yield* new Unavailable({
              detail: "Too many open approval feeds. Close unused console tabs and try again."
            })
          }
          // The client may disconnect before the stream starts, or send a HEAD request: only a running stream counts towards the limits.
          return Stream.unwrap(
            Effect.map(
              Effect.acquireRelease(
                subscribe({ org_id, key_id: actor.id, canReadSessions: scopes.has("sessions.read") }),
                (subscriber) => Effect.sync(() => end(subscriber))
              ),
              ({ queue }) => Stream.fromQueue(queue)
            )
          )
        }),
        endAll: Effect.sync(() => {
          isShutDown = true
          for (const subscriber of subscribers) end(subscriber)
        })
      })
    })
  )

  /**
   * Ends the feeds when its scope closes. It must be built over the listening server, so that it runs before the server drains its
   * requests.
   */
  static readonly layerEndOnShutdown: Layer.Layer<never, never, ApprovalFeed> = Layer.effectDiscard(
    Effect.flatMap(ApprovalFeed, ({ endAll }) => Effect.addFinalizer(() => endAll))
  )
}

/** One open feed. */
interface FeedSubscriber {
  readonly org_id: OrgId
  readonly key_id: KeyId
  /** Whether its key has the scope `sessions.read`. */
  readonly canReadSessions: boolean
  readonly queue: Queue.Queue<Uint8Array, Cause.Done>
}

/** The first frame sets the browser's reconnection time to two seconds (server-sent events: WHATWG HTML, 9.2). */
const OPENING = Buffer.from("retry: 2000\n\n")
const RESYNC = Buffer.from("event: resync\ndata: {}\n\n")
/** The heartbeat. An event, because pages do not see comments, and an event of them shows that the connection works. */
const PING = Buffer.from("event: ping\ndata: {}\n\n")
