import type { PgClient } from "@effect/sql-pg"
import { Context, type DateTime, Effect, Layer, type Scope } from "effect"
import { SecureRandom } from "effect/crypto"
import { SqlClient, type SqlError } from "effect/sql"
import type { NotFound, NotReplayable, QueueFull } from "../../api/Problems.ts"
import type { OrgId } from "../../domain/Ids.ts"
import type { Timestamp } from "../../domain/Time.ts"
import type { Channel } from "./Channel.ts"
import { type DeliveryStats, makeDeliveryStats } from "./Delivery/DeliveryStats.ts"
import { makeClusterDeliveryStore, makeDeliveryStore } from "./Delivery/DeliveryStore.ts"
import { type EngineOptions, makeEngine } from "./Delivery/Engine.ts"
import {
  type DestinationHealth,
  type DeliveryLogEntry,
  type DeliveryLogDetail,
  makeDeliveryLog
} from "./Delivery/DeliveryLog.ts"
import type { NewDelivery } from "./Delivery/QueuedDelivery.ts"
import { type EnqueuedWith, type EnqueueParts, makeDeliveryQueue } from "./Delivery/DeliveryQueue.ts"
import type { PreparedDelivery } from "./Delivery/QueueWrites.ts"
import { makeReplay, type ReplayOfMany } from "./Delivery/Replay.ts"
import {
  defaultRetention,
  makeRetention,
  type RetentionResult,
  type RetentionOptions
} from "./Delivery/Retention.ts"
import { makeShardStore } from "./Delivery/ShardStore.ts"
import { endStoredCooldown } from "./Delivery/writeHealth.ts"
import { makeWakeups } from "./Delivery/Wakeups.ts"
import { isCluster } from "../store/Cluster.ts"
import { layerDedicatedPool } from "../store/Database.ts"
import { runWorker, startWorkers } from "../concurrency/Worker.ts"
import { StoreClock } from "../store/StoreClock.ts"

export {
  type Channel,
  type ChannelPolicy,
  defaultChannelPolicy,
  type DeliveryRef,
  type CompletedDelivery
} from "./Channel.ts"
export type { DestinationHealth, DeliveryLogEntry, DeliveryLogDetail } from "./Delivery/DeliveryLog.ts"
export type { ReceiverRateOptions } from "./Delivery/ReceiverRates.ts"
export type { NewDelivery } from "./Delivery/QueuedDelivery.ts"
export type { EnqueuedWith, EnqueueParts } from "./Delivery/DeliveryQueue.ts"
export type { InsertedDelivery, PreparedDelivery } from "./Delivery/QueueWrites.ts"

/** Options of the delivery engine in one replica. Omitted options use the defaults documented beside each part. */
export interface DeliveryOptions extends EngineOptions {
  readonly retention?: Partial<RetentionOptions>
}

/**
 * Delivers events to destinations at least once. The replica that holds the lease of the destination's shard sends the
 * queued deliveries; any number of replicas share one database.
 *
 * ```
 *   enqueue ──> deliveries, delivery_queue ──> Reader ──> Lanes ──> Dispatcher ──> Attempt ──> Channel ──> peer
 *   (caller's transaction)     │                            ^                         │
 *          └── on commit ──────┼────────────────────────────┘                         v
 *                              └────────────── one statement a batch <──────────── Finisher
 * ```
 */
export class Delivery extends Context.Service<
  Delivery,
  {
    /**
     * Inserts a log record and a queue row for each delivery, within the caller's transaction. A delivery beyond its
     * destination's queue limit is recorded as `failed` with "queue full" and can be replayed. When the transaction
     * commits, deliveries of shards owned by this replica go straight to the dispatcher without a read, and the other
     * replicas are notified. Returns the delivery ids in the order of the list.
     */
    readonly enqueue: (
      list: ReadonlyArray<NewDelivery>
    ) => Effect.Effect<ReadonlyArray<string>, SqlError.SqlError>
    /** Gives each delivery its id and schedule, for `enqueueWith`. */
    readonly prepare: (list: ReadonlyArray<NewDelivery>) => Effect.Effect<ReadonlyArray<PreparedDelivery>>
    /**
     * `enqueue` as part of a single statement outside a transaction, so that an event and its deliveries take one round
     * trip. The statement inserts none or some of the prepared deliveries, and returns the inserted ones. Deliveries
     * for a destination near its queue limit must go through `enqueue`, which counts under a lock.
     */
    readonly enqueueWith: <A, E, R>(
      prepared: ReadonlyArray<PreparedDelivery>,
      statement: (parts: EnqueueParts) => Effect.Effect<EnqueuedWith<A>, E, R>
    ) => Effect.Effect<A, E, R>
    /** Lists the latest 50 deliveries, newest first. */
    readonly list: (org_id: OrgId, destination_id: string) => Effect.Effect<ReadonlyArray<DeliveryLogEntry>>
    /** Returns one delivery with its latest attempts. */
    readonly get: (
      org_id: OrgId,
      destination_id: string,
      delivery_id: string
    ) => Effect.Effect<DeliveryLogDetail, NotFound>
    /**
     * Queues a failed delivery again with the same event and a full retry schedule. It waits for the destination's
     * cooldown, if any.
     */
    readonly replay: (
      org_id: OrgId,
      destination_id: string,
      delivery_id: string
    ) => Effect.Effect<void, NotFound | NotReplayable | QueueFull>
    /**
     * Queues the failed ones of these deliveries, oldest first, up to the destination's remaining capacity. Returns the result of
     * each that exists.
     */
    readonly replayMany: (
      org_id: OrgId,
      destination_id: string,
      delivery_ids: ReadonlyArray<string>
    ) => Effect.Effect<ReadonlyMap<string, ReplayOfMany>>
    /** Queues every failed delivery created in the window, oldest first, up to the destination's remaining capacity. */
    readonly replayWindow: (
      org_id: OrgId,
      destination_id: string,
      window: { readonly since: DateTime.Utc; readonly until: DateTime.Utc | null }
    ) => Effect.Effect<{ readonly queued: number; readonly skipped: number }>
    /**
     * Ends the cooldown of a destination, if it has one, on the caller's request: its next delivery is sent at once. If
     * that fails, the next, longer cooldown starts.
     */
    readonly endCooldown: (org_id: OrgId, destination_id: string) => Effect.Effect<void, SqlError.SqlError>
    /**
     * Ends the cooldown of a destination whose queue is in the memory of this replica, without the database. False: it is not here, and
     * `endCooldown` may be needed.
     */
    readonly endCooldownHere: (org_id: OrgId, destination_id: string) => boolean
    /**
     * Ends the cooldown of a destination and makes all of its queued deliveries due now, within the caller's transaction. They keep their
     * number of attempts.
     */
    readonly retryNow: (org_id: OrgId, destination_id: string) => Effect.Effect<void, SqlError.SqlError>
    /** Returns when the oldest queued delivery of each destination was created, by id. Absent: nothing is queued. */
    readonly oldestWaiting: (
      org_id: OrgId,
      ids: ReadonlyArray<string>
    ) => Effect.Effect<ReadonlyMap<string, Timestamp>>
    /** Returns the health of each destination, by id. */
    readonly health: (
      org_id: OrgId,
      destination_ids: ReadonlyArray<string>
    ) => Effect.Effect<ReadonlyMap<string, DestinationHealth>>
    /**
     * When the next attempt at each of these pending deliveries is due, by id: at the end of a cooldown at the earliest. Reads the queue
     * of each destination once.
     */
    readonly nextAttempts: (
      org_id: OrgId,
      pending: ReadonlyArray<{ readonly destination_id: string; readonly delivery_id: string }>
    ) => Effect.Effect<ReadonlyMap<string, DateTime.Utc>>
    /** How much the queue of a destination of this channel may hold: deliveries, or spans of telemetry. */
    readonly queueLimit: (channel: string) => number
    /** Cancels all queued deliveries of a destination that is being removed, within the caller's transaction. */
    readonly discard: (org_id: OrgId, destination_id: string) => Effect.Effect<void, SqlError.SqlError>
    /** Returns the engine's statistics in this replica. Counts the queue, so call it every few seconds at most. */
    readonly stats: Effect.Effect<DeliveryStats, SqlError.SqlError>
    /**
     * Counts a request that is not a delivery, such as a challenge, within the rates of the host (`receiver`) or network
     * that it goes to. False: the rate is reached, and it must not be sent now.
     */
    readonly tryTakeRequest: (
      channel: string,
      org_id: OrgId,
      by: "receiver" | "network",
      name: string
    ) => boolean
    /** Deliveries and payloads of an earlier time are deleted. */
    readonly keptSince: Effect.Effect<DateTime.Utc>
    /** Deletes expired deliveries, attempts and payloads once. A background worker calls it regularly too. */
    readonly runRetention: Effect.Effect<RetentionResult, SqlError.SqlError>
  }
>()("countersign/server/delivery/Delivery") {
  /**
   * Runs the engine with these channels for as long as the layer lives, and drains it when the layer's scope closes.
   * Channels are built with the engine's own connections; `enqueue`, reads and replays run on the caller's connections.
   */
  static readonly layer = <E, R>(
    channels: Effect.Effect<ReadonlyArray<Channel>, E, R>,
    options: DeliveryOptions = {}
  ): Layer.Layer<
    Delivery,
    E | SqlError.SqlError,
    | Exclude<Exclude<R, PgClient.PgClient | SqlClient.SqlClient>, Scope.Scope>
    | PgClient.PgClient
    | SqlClient.SqlClient
    | StoreClock
  > =>
    Layer.effect(
      Delivery,
      Effect.gen(function* () {
        const callers = yield* SqlClient.SqlClient
        const leaseSession = { onEnd: () => {} }
        const engineClient = yield* Layer.build(layerDedicatedPool(ENGINE_CONNECTIONS - LEASE_CONNECTIONS))
        const leases = Context.get(
          yield* Layer.build(layerDedicatedPool(LEASE_CONNECTIONS, () => leaseSession.onEnd())),
          SqlClient.SqlClient
        )
        return yield* Effect.flatMap(channels, (list) =>
          make(list, { callers, leases, leaseSession }, options)
        ).pipe(Effect.provide(engineClient))
      })
    )
}

/**
 * A dedicated connection for lease renewal and shard rebalancing: while the database is slow, they must not wait behind
 * reads and writes.
 */
const LEASE_CONNECTIONS = 1

/**
 * Connections of the engine: one for leases, one for LISTEN, and five shared by results, health, queue reads, channel
 * loads, NOTIFY, retention and statistics. The engine and its callers have separate pools, so that neither waits while
 * the other uses up all of its own.
 */
export const ENGINE_CONNECTIONS = LEASE_CONNECTIONS + 6

const make = Effect.fnUntraced(function* (
  list: ReadonlyArray<Channel>,
  {
    callers,
    leaseSession,
    leases
  }: {
    readonly callers: SqlClient.SqlClient
    readonly leases: SqlClient.SqlClient
    /** Calls `onEnd` when the connection of `leases` has closed. */
    readonly leaseSession: { onEnd: () => void }
  },
  options: DeliveryOptions
) {
  const sql = yield* SqlClient.SqlClient
  const storeClock = yield* StoreClock
  const clustered = yield* isCluster(sql)
  const channels = new Map(list.map((channel) => [channel.name, channel]))
  const wakeups = yield* makeWakeups
  const engine = yield* makeEngine(
    channels,
    {
      shardStore: makeShardStore(leases, SecureRandom.uuidV7Unsafe(), clustered),
      store: clustered ? makeClusterDeliveryStore(sql, storeClock) : makeDeliveryStore(sql, storeClock),
      wakeups,
      dueClock: storeClock.clock,
      storeMillis: storeClock.millisUnsafe
    },
    options
  )
  const { dispatcher, reader, shards } = engine
  leaseSession.onEnd = engine.sessionEnded
  const signalReplayed = callers.afterCommit(Effect.sync(engine.signalNewRows))

  const queue = makeDeliveryQueue(callers, storeClock, channels, engine.beginEnqueue)
  const log = makeDeliveryLog(callers, storeClock, dispatcher.isSending)
  const { makeDue, replay, replayMany, replayWindow } = makeReplay(callers, storeClock, channels, queue)
  const retention = makeRetention(sql, list, storeClock, { ...defaultRetention, ...options.retention })

  yield* retention.partitions.pipe(
    Effect.catchCause((cause) => Effect.logWarning("Could not create delivery_attempts partitions", cause))
  )
  yield* startWorkers([runWorker(retention.worker)])
  yield* engine.start

  return Delivery.of({
    enqueue: queue.enqueue,
    prepare: queue.prepare,
    enqueueWith: queue.enqueueWith,
    list: log.list,
    get: log.get,
    replay: (org_id, destination_id, delivery_id) =>
      Effect.andThen(replay(org_id, destination_id, delivery_id), signalReplayed),
    replayMany: (org_id, destination_id, ids) =>
      Effect.tap(replayMany(org_id, destination_id, ids), signalReplayed),
    replayWindow: (org_id, destination_id, window) =>
      Effect.tap(replayWindow(org_id, destination_id, window), signalReplayed),
    endCooldown: (org_id, destination_id) =>
      Effect.andThen(
        endStoredCooldown(callers, storeClock, org_id, destination_id),
        callers.afterCommit(wakeups.notifyCooldownEnded(org_id, destination_id))
      ),
    retryNow: (org_id, destination_id) =>
      Effect.gen(function* () {
        yield* makeDue(org_id, destination_id)
        yield* endStoredCooldown(callers, storeClock, org_id, destination_id)
        yield* callers.afterCommit(wakeups.notifyMadeDue(org_id, destination_id))
      }),
    endCooldownHere: dispatcher.endCooldown,
    health: log.health,
    oldestWaiting: log.oldestWaiting,
    nextAttempts: log.nextAttempts,
    queueLimit: (channel) => channels.get(channel)?.policy.queueLimit ?? Infinity,
    discard: queue.discard,
    stats: makeDeliveryStats(sql, channels, shards, dispatcher, reader),
    tryTakeRequest: dispatcher.tryTakeRequest,
    keptSince: retention.cutoff,
    runRetention: retention.runOnce
  })
})
