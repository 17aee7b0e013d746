import { PgClient } from "@effect/sql-pg"
import { assert, it } from "@effect/vitest"
import { Clock, Context, DateTime, Effect, Layer, Queue, Redacted, Result, type Scope } from "effect"
import { SqlClient } from "effect/sql"
import { randomBytes } from "node:crypto"
import type { AttemptOutcome } from "../../src/domain/delivery/DeliveryState.ts"
import { DeliveryId, EndpointId, EventId, OrgId } from "../../src/domain/Ids.ts"
import { parseAllowedNetworks } from "../../src/domain/network/PublicAddress.ts"
import { generateSigningSecret } from "../../src/domain/delivery/WebhookSignature.ts"
import { monotonicNow } from "../../src/server/concurrency/monotonicMillis.ts"
import type { SendAttempt } from "../../src/server/delivery/Channel.ts"
import { processClock } from "../../src/server/concurrency/processClock.ts"
import { transaction } from "../../src/server/store/transaction.ts"
import {
  type Channel,
  type ChannelPolicy,
  defaultChannelPolicy,
  Delivery,
  type DeliveryOptions,
  type DeliveryLogEntry,
  type DeliveryRef
} from "../../src/server/delivery/Delivery.ts"
import type { QueueRow } from "../../src/server/delivery/Delivery/QueuedDelivery.ts"
import { makeDeliveryQueue } from "../../src/server/delivery/Delivery/DeliveryQueue.ts"
import { makeDeliveryLog } from "../../src/server/delivery/Delivery/DeliveryLog.ts"
import { makeDispatcher } from "../../src/server/delivery/Delivery/Dispatcher.ts"
import { makeReplay } from "../../src/server/delivery/Delivery/Replay.ts"
import type { OwnedShard } from "../../src/server/delivery/Delivery/Shards.ts"
import { defaultSlots, type SlotOptions } from "../../src/server/delivery/Delivery/Slots.ts"
import { Egress } from "../../src/server/egress/Egress.ts"
import { RecentEvents } from "../../src/server/notifications/Notifications/RecentEvents.ts"
import * as WebhookChannel from "../../src/server/notifications/Notifications/WebhookChannel.ts"
import { endpointPlace } from "../../src/server/notifications/Notifications/rows.ts"
import { SecretBox } from "../../src/server/secrets/SecretBox.ts"
import { StoreClock } from "../../src/server/store/StoreClock.ts"
import { startChain } from "./audit.ts"
import { eventually } from "./eventually.ts"
import { TestDatabase } from "./postgres.ts"
import { VerificationPolicy } from "../../src/server/identity/VerificationPolicy.ts"

/** Timeout of a test on a busy machine. */
const TEST_MILLIS = 120_000

/** An attempt that is in flight until the test completes it. */
export interface ManualAttempt {
  readonly delivery: DeliveryRef
  readonly complete: (outcome: AttemptOutcome) => Effect.Effect<void>
}

export const delivered: AttemptOutcome = { _tag: "Delivered", status: 200 }
export const failing: AttemptOutcome = { _tag: "Retry", error: "HTTP 503", status: 503, retryAfter: null }

/** Shard 0 as its owner holds it, with an endless lease. */
export const ownedShard = (open: number): OwnedShard => ({
  shard: 0,
  epoch: 1,
  claimedAt: 0,
  leaseUntil: Infinity,
  unfinished: open,
  draining: false,
  watermark: 0,
  stableWatermark: 0,
  nextStableWatermark: 0,
  stableSince: 0
})

const zeros = "0".repeat(32)

/** A queue row as it is read: the first delivery to a destination of shard 0, due now. Each `seq` has its own event. */
export const queueRow = (change: Partial<QueueRow> = {}): QueueRow => {
  const digits = String(change.seq ?? 1).padStart(32, "0")
  return {
    shard: 0,
    seq: 1,
    org_id: OrgId.make(`org_${zeros}`),
    destination_id: `nep_${zeros}`,
    delivery_id: DeliveryId.make(`ndl_${digits}`),
    channel: "held",
    event_id: EventId.make(`evt_${digits}`),
    attempt: 0,
    first_attempt: 0,
    wait_ms: 0,
    left_ms: null,
    consecutive_failures: null,
    cooldown_round: null,
    cooldown_ms: null,
    ...change
  }
}

/** A policy whose delays are milliseconds. */
export const quickPolicy = (policy: Partial<ChannelPolicy> = {}): ChannelPolicy => ({
  ...defaultChannelPolicy,
  retry: { ...defaultChannelPolicy.retry, delaysMillis: [0, 5, 5, 5] },
  ...policy
})

/** A channel whose attempts the test takes one by one and completes with any outcome. */
export const manualChannel = (policy: ChannelPolicy) =>
  Effect.map(Queue.unbounded<ManualAttempt>(), (attempts) => {
    const channel: Channel = {
      name: "held",
      ids: DeliveryId,
      policy,
      load: (ref) =>
        Effect.succeed(() =>
          Effect.callback<AttemptOutcome>((resume) => {
            Queue.offerUnsafe(attempts, {
              delivery: ref,
              complete: (outcome) => Effect.sync(() => resume(Effect.succeed(outcome)))
            })
          })
        ),
      expire: () => Effect.succeed(0)
    }
    return { channel, attempts }
  })

/**
 * A dispatcher with one channel that owns shard 0. `regain` makes it lose the shard and gain it again; no attempt may
 * start while `lease.isShort`.
 */
export const startDispatcher = Effect.fnUntraced(function* (
  channel: Channel,
  slots: Partial<SlotOptions> = {}
) {
  const owned = new Map([[0, ownedShard(0)]])
  const lease = { isShort: false }
  const shards = {
    owned,
    suspend: () => {},
    canStart: (one: OwnedShard) => !lease.isShort && owned.get(one.shard) === one,
    hasPeers: () => true,
    rebalance: Effect.succeed([]),
    startDraining: Effect.void,
    releaseDrained: Effect.succeed([]),
    releaseAll: Effect.void
  }
  const channels = new Map([[channel.name, channel]])
  const limits = { ...defaultSlots, ...slots }
  const dueClock = yield* Clock.Clock
  const dispatcher = yield* makeDispatcher(channels, shards, limits, 10_000, {
    dueClock,
    storeMillis: () => dueClock.currentTimeMillisUnsafe()
  })
  const regain = () => void owned.set(0, { ...ownedShard(0), epoch: 2 })
  return { dispatcher, lease, owned, regain, shards }
})

/** Loads and sends at once, as the engine does. */
export const sendLoaded = <E, R>(load: Effect.Effect<SendAttempt, E, R>) =>
  Effect.flatMap(load, (send) => Effect.flatMap(monotonicNow, send))

/** A channel that completes each attempt immediately, and offers the sent deliveries to a queue. */
export const respondingChannel = (
  policy: ChannelPolicy,
  answer: (ref: DeliveryRef, nth: number) => AttemptOutcome
) =>
  Effect.map(Queue.unbounded<DeliveryRef>(), (sent) => {
    const counts = new Map<string, number>()
    const channel: Channel = {
      name: "held",
      ids: DeliveryId,
      policy,
      load: (ref) =>
        Effect.succeed(() =>
          Effect.sync(() => {
            const nth = (counts.get(ref.delivery_id) ?? 0) + 1
            counts.set(ref.delivery_id, nth)
            Queue.offerUnsafe(sent, ref)
            return answer(ref, nth)
          })
        ),
      expire: () => Effect.succeed(0)
    }
    return { channel, sent }
  })

/** The process's own time as the service's, without measuring the database's: statements use the database's own. */
export const processTime: StoreClock["Service"] = {
  now: DateTime.now,
  millisUnsafe: () => processClock.currentTimeMillisUnsafe(),
  clock: processClock,
  simulated: undefined
}

/** Runs an effect with its own engine, which shuts down gracefully at the end. */
export const withEngine =
  (channels: ReadonlyArray<Channel>, options: DeliveryOptions = {}) =>
  <A, E, R>(use: Effect.Effect<A, E, R>) =>
    Effect.provide(
      use,
      Delivery.layer(Effect.succeed(channels), options).pipe(Layer.provide(StoreClock.layer)),
      { local: true }
    )

/** Starts an engine that lives as long as a scope. */
export const startEngine = (
  scope: Scope.Scope,
  channels: ReadonlyArray<Channel>,
  options: DeliveryOptions = {}
) =>
  Effect.map(
    Layer.buildWithScope(
      Layer.fresh(Delivery.layer(Effect.succeed(channels), options)).pipe(Layer.provide(StoreClock.layer)),
      scope
    ),
    (context) => Context.get(context, Delivery)
  )

/** A new destination of a new organization. */
export const newDestination = Effect.all({ org_id: OrgId.generate, destination_id: EndpointId.generate })

/** Commits events for a destination, as a service does. */
export const publish = (
  to: { readonly org_id: OrgId; readonly destination_id: string },
  count = 1,
  channel = "held"
) =>
  Effect.gen(function* () {
    const delivery = yield* Delivery
    const events = yield* Effect.replicateEffect(EventId.generate, count)
    yield* transaction(
      delivery.enqueue(events.map((event_id) => ({ ...to, channel, event_id, label: "approval.requested" })))
    )
    return events
  })

/** Waits until the records of a destination satisfy a predicate. */
export const awaitRecords = (
  to: { readonly org_id: OrgId; readonly destination_id: string },
  holds: (list: Effect.Success<ReturnType<Delivery["Service"]["list"]>>) => boolean
) => Effect.flatMap(Delivery, (delivery) => eventually(delivery.list(to.org_id, to.destination_id), holds))

/** The master key of endpoint secrets, shared with child processes. */
export const masterKey = Redacted.make(randomBytes(32).toString("base64"))

/** The dependencies of the webhook channel: loopback is allowed, without TLS. */
export const layerWebhookDependencies = Layer.mergeAll(
  VerificationPolicy.layerNone,
  Layer.orDie(SecretBox.layer({ masterKeys: [masterKey] })),
  RecentEvents.layer,
  Egress.layer({
    dnsServers: [],
    allow: Result.getOrThrow(parseAllowedNetworks("127.0.0.1/32")),
    allowHttp: true,
    deny: [],
    ownHost: undefined
  })
)

/** A test with the real clock on its own database, since an engine claims every shard. */
export const testWithDatabase = <E>(
  name: string,
  effect: () => Effect.Effect<void, E, SqlClient.SqlClient | PgClient.PgClient | TestDatabase | Scope.Scope>
) =>
  it.live(
    name,
    () => Effect.suspend(effect).pipe(Effect.provide(Layer.fresh(TestDatabase.layerSql))),
    TEST_MILLIS
  )

/** The same with real sockets and the dependencies of the webhook channel. */
export const testWithWebhooks = <E>(
  name: string,
  effect: () => Effect.Effect<
    void,
    E,
    | SqlClient.SqlClient
    | PgClient.PgClient
    | TestDatabase
    | Egress
    | RecentEvents
    | SecretBox
    | VerificationPolicy
    | Scope.Scope
  >
) =>
  it.live(
    name,
    () =>
      Effect.suspend(effect).pipe(
        Effect.provide(Layer.fresh(Layer.merge(TestDatabase.layerSql, layerWebhookDependencies)))
      ),
    TEST_MILLIS
  )

/** Runs an effect with an engine that has the webhook channel. */
export const withWebhookEngine =
  (options: WebhookChannel.WebhookOptions = {}, engine: DeliveryOptions = {}) =>
  <A, E, R>(use: Effect.Effect<A, E, R>) =>
    Effect.provide(
      use,
      Delivery.layer(Effect.all([WebhookChannel.make(options)]), engine).pipe(
        Layer.provide([StoreClock.layer, VerificationPolicy.layerNone])
      ),
      { local: true }
    )

/** Runs an effect like a replica without an engine: it commits, and notifies the replicas that deliver. */
export const withoutEngineFor =
  (channel: Channel) =>
  <A, E, R>(use: Effect.Effect<A, E, R>) =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const pg = yield* PgClient.PgClient
      const channels = new Map([[channel.name, channel]])
      const queue = makeDeliveryQueue(
        sql,
        processTime,
        channels,
        () => () => Effect.ignore(pg.notify("countersign_delivery", "rows"))
      )
      const log = {
        ...queue,
        ...makeDeliveryLog(sql, processTime, () => false),
        ...makeReplay(sql, processTime, channels, queue)
      }
      return yield* Effect.provideService(
        use,
        Delivery,
        Delivery.of({
          ...log,
          endCooldown: () => Effect.void,
          endCooldownHere: () => false,
          retryNow: () => Effect.void,
          tryTakeRequest: () => true,
          queueLimit: () => channel.policy.queueLimit,
          keptSince: Effect.die("Nothing is removed here"),
          runRetention: Effect.die("Nothing is removed here"),
          stats: Effect.die("Nothing is carried here")
        })
      )
    })

/** The same with the webhook channel. */
export const withoutEngine = <A, E, R>(use: Effect.Effect<A, E, R>) =>
  Effect.flatMap(Effect.provideService(WebhookChannel.make(), StoreClock, processTime), (channel) =>
    withoutEngineFor(channel)(use)
  )

/** Inserts an endpoint with this URL; returns it with its secret. */
export const insertEndpoint = Effect.fnUntraced(function* (url: string) {
  const sql = yield* SqlClient.SqlClient
  const box = yield* SecretBox
  const { destination_id, org_id } = yield* newDestination
  yield* startChain(org_id)
  const secret = yield* generateSigningSecret
  yield* sql`INSERT INTO notification_endpoints ${sql.insert({ org_id, endpoint_id: destination_id, url: yield* box.seal(endpointPlace(org_id, destination_id, "url"), Redacted.make(url)), url_hint: "hint", secret: yield* box.seal(endpointPlace(org_id, destination_id, "secret"), secret), events: ["approval.requested"], active: true, created_at: new Date(), created_by_id: "key", created_by_name: "key" })}`
  return { org_id, destination_id, secret: Redacted.value(secret) }
})

/** Commits one event with a body for each endpoint. */
export const publishWebhookEvents = Effect.fnUntraced(function* (
  to: ReadonlyArray<{ readonly org_id: OrgId; readonly destination_id: string }>,
  body: string
) {
  const sql = yield* SqlClient.SqlClient
  const delivery = yield* Delivery
  const events = yield* Effect.forEach(to, ({ org_id, destination_id }) =>
    Effect.map(EventId.generate, (event_id) => ({ org_id, destination_id, event_id }))
  )
  yield* transaction(
    Effect.gen(function* () {
      for (const { event_id, org_id } of events) {
        yield* sql`INSERT INTO approval_events ${sql.insert({ org_id, event_id, type: "approval.requested", approval_id: "apr", body: Buffer.from(body), occurred_at: new Date() })}`
      }
      yield* delivery.enqueue(
        events.map((event) => ({ ...event, channel: WebhookChannel.WEBHOOK, label: "approval.requested" }))
      )
    })
  )
  return events.map((event) => event.event_id)
})

/** Whether there are records and all have this status. */
export const allHaveStatus = (status: string) => (list: ReadonlyArray<{ readonly status: string }>) =>
  list.length > 0 && list.every((record) => record.status === status)

/** The id of a record that must exist. */
export const recordId = (record: DeliveryLogEntry | undefined): string => {
  assert.isDefined(record)
  return record?.id ?? ""
}

/** A policy of one attempt. */
export const singleAttempt = { ...quickPolicy().retry, delaysMillis: [0] }

/** A policy without cooldowns. */
export const noCooldown = { failureThreshold: 1_000, firstMillis: 1, longestMillis: 1 }

/** The number of deliveries in the queue. */
export const queueLength = Effect.flatMap(
  SqlClient.SqlClient,
  (sql) => sql<{ readonly count: number }>`SELECT count(*)::int AS count FROM delivery_queue`
).pipe(Effect.map((rows) => rows[0]?.count))

/**
 * Makes everything older than a retention of one hour, including ids, which contain their time. The retention run at
 * start is over by then and deletes nothing of it.
 */
export const ageAllDeliveries = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const delivery = yield* Delivery
  yield* delivery.runRetention
  // On a cluster, retention goes from organization to organization.
  yield* sql`
    INSERT INTO organizations (org_id, name, created_at)
    SELECT DISTINCT org_id, org_id, now()
    FROM deliveries
    ON CONFLICT DO NOTHING
  `
  const older = sql.literal("left(delivery_id, 4) || '0000' || right(delivery_id, 28)")
  yield* sql`UPDATE delivery_queue SET delivery_id = ${older}`
  yield* sql`UPDATE deliveries SET delivery_id = ${older}, created_at = created_at - interval '1 day'`
})

/** Asserts that an event for another destination is the next one sent, and the only one. */
export const assertOnlyOtherDestinationIsSent = Effect.fnUntraced(function* (
  attempts: Queue.Dequeue<ManualAttempt>
) {
  const other = yield* newDestination
  yield* publish(other)
  const next = yield* Queue.take(attempts)
  assert.strictEqual(next.delivery.destination_id, other.destination_id)
  yield* next.complete(delivered)
  yield* awaitRecords(other, allHaveStatus("delivered"))
  assert.strictEqual(yield* Queue.size(attempts), 0)
})
