import type { PgClient } from "@effect/sql-pg"
import { Clock, Context, type DateTime, Effect, Layer, type Scope } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import type { NotFound, NotReplayable, QueueFull } from "../../api/Problems.ts"
import type { OrgId } from "../../domain/Ids.ts"
import type { Channel } from "./Delivery/Channel.ts"
import { makeDispatcher } from "./Delivery/Dispatcher.ts"
import { type DeliveryFigures, makeFigures } from "./Delivery/Figures.ts"
import { makeFinisher } from "./Delivery/Finisher.ts"
import { makeHealthWriter } from "./Delivery/HealthWriter.ts"
import {
  type DestinationHealth,
  type LoggedDelivery,
  type LoggedDeliveryDetail,
  makeLog
} from "./Delivery/Log.ts"
import type { Enqueued } from "./Delivery/QueuedDelivery.ts"
import { type Handover, makeQueue } from "./Delivery/Queue.ts"
import { makeReplay } from "./Delivery/Replay.ts"
import { defaultReader, horizonMillis, makeReader, type ReaderOptions } from "./Delivery/Reader.ts"
import { defaultRetention, makeRetention, type Removed, type RetentionOptions } from "./Delivery/Retention.ts"
import { defaultLease, type LeaseOptions, makeShards } from "./Delivery/Shards.ts"
import { makeSharing } from "./Delivery/ShardBalancer.ts"
import { defaultSlots, type SlotOptions } from "./Delivery/Slots.ts"
import { handOver } from "./Delivery/drain.ts"
import { makeWakeups } from "./Delivery/Wakeups.ts"
import { layerDedicatedPool } from "../store/Database.ts"
import { afterCommit } from "../store/Database/transaction.ts"
import { onShutdown, runForever, runWorkers } from "../concurrency/Worker.ts"
import { monotonicMillis } from "../concurrency/monotonicMillis.ts"
import { StoreClock } from "../store/StoreClock.ts"

export {
  type Channel,
  type ChannelPolicy,
  defaultChannelPolicy,
  type Parcel,
  type Settled
} from "./Delivery/Channel.ts"
export type { DestinationHealth, LoggedDelivery, LoggedDeliveryDetail } from "./Delivery/Log.ts"
export type { Enqueued } from "./Delivery/QueuedDelivery.ts"

/** How the engine runs in one process. What is left out has the defaults named beside each part. */
export interface DeliveryOptions {
  readonly lease?: Partial<LeaseOptions>
  readonly slots?: Partial<SlotOptions>
  readonly reader?: Partial<ReaderOptions>
  readonly retention?: Partial<RetentionOptions>
  /**
   * The longest wait at the stop for attempts that are under way. Default 6,000: longer than a webhook's; what its channel gives longer
   * than that may be cut off, and is sent again.
   */
  readonly drainMillis?: number
}

/**
 * Carries events to destinations, at least once. What is queued is carried by whichever process owns the destination's
 * shard; any number of processes share one store.
 */
export class Delivery extends Context.Service<
  Delivery,
  {
    /**
     * Within the caller's transaction: a record and a place in the queue for each. Past a destination's capacity the record
     * is `failed` with "queue full", and can be replayed. The commit itself sets them going: what is for shards of this process is
     * handed over without being read, the other processes are told. Answers with the ids of the deliveries, in the order of the list.
     */
    readonly enqueue: (
      list: ReadonlyArray<Enqueued>
    ) => Effect.Effect<ReadonlyArray<string>, SqlError.SqlError>
    /** The latest 50, newest first. */
    readonly list: (org_id: OrgId, destination_id: string) => Effect.Effect<ReadonlyArray<LoggedDelivery>>
    readonly get: (
      org_id: OrgId,
      destination_id: string,
      delivery_id: string
    ) => Effect.Effect<LoggedDeliveryDetail, NotFound>
    /** Queues a failed delivery again: the same event, the whole schedule, after the destination's cooldown. */
    readonly replay: (
      org_id: OrgId,
      destination_id: string,
      delivery_id: string
    ) => Effect.Effect<void, NotFound | NotReplayable | QueueFull>
    /** Queues every failed delivery that was created in the window, oldest first, up to the capacity. */
    readonly replayWindow: (
      org_id: OrgId,
      destination_id: string,
      window: { readonly since: DateTime.Utc; readonly until: DateTime.Utc | null }
    ) => Effect.Effect<{ readonly queued: number; readonly skipped: number }>
    /** How destinations fare, by id. */
    readonly health: (
      org_id: OrgId,
      destination_ids: ReadonlyArray<string>
    ) => Effect.Effect<ReadonlyMap<string, DestinationHealth>>
    /** Within the caller's transaction, when a destination is removed: nothing waits for it any more. */
    readonly discard: (org_id: OrgId, destination_id: string) => Effect.Effect<void, SqlError.SqlError>
    /** How the engine fares in this process. Counts the queue: to be asked every few seconds at most. */
    readonly figures: Effect.Effect<DeliveryFigures, SqlError.SqlError>
    /** Removes what is older than is kept, once; runs by itself, too. */
    readonly runRetention: Effect.Effect<Removed, SqlError.SqlError>
  }
>()("countersign/server/delivery/Delivery") {
  /**
   * The engine with its channels, which live as long and share its own connections; what callers ask for runs on theirs. It runs while
   * the layer lives, and hands over its shards when that ends.
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
        const own = yield* Layer.build(layerDedicatedPool(ENGINE_CONNECTIONS - LEASE_CONNECTIONS))
        const leases = Context.get(
          yield* Layer.build(layerDedicatedPool(LEASE_CONNECTIONS)),
          SqlClient.SqlClient
        )
        return yield* Effect.flatMap(channels, (list) => make(list, { callers, leases }, options)).pipe(
          Effect.provide(own)
        )
      })
    )
}

/** For renewing leases and sharing out alone: where the store is slow, they must not wait behind what is read and written. */
const LEASE_CONNECTIONS = 1

/**
 * Connections of the engine's own: that for leases, one to hear by, and five that all else takes turns on: results and how destinations
 * fare, reads, what channels ask, notices, removal, figures. What it does never waits for those who hold all the callers' while they
 * publish, and the other way about.
 */
export const ENGINE_CONNECTIONS = LEASE_CONNECTIONS + 6

/** Longer than a webhook has for its answer. */
const DRAIN_MILLIS = 6_000

const make = Effect.fnUntraced(function* (
  list: ReadonlyArray<Channel>,
  { callers, leases }: { readonly callers: SqlClient.SqlClient; readonly leases: SqlClient.SqlClient },
  options: DeliveryOptions
) {
  const sql = yield* SqlClient.SqlClient
  const clock = yield* Clock.Clock
  const channels = new Map(list.map((channel) => [channel.name, channel]))
  const lease = { ...defaultLease, ...options.lease }
  const shards = makeShards(leases, clock, lease)
  const reading = { ...defaultReader, ...options.reader }
  const slots = { ...defaultSlots, ...options.slots }
  const dispatcher = yield* makeDispatcher(channels, shards, slots, horizonMillis(reading))
  const reader = yield* makeReader(sql, shards, dispatcher, reading)
  const finisher = yield* makeFinisher(sql, dispatcher)
  const health = yield* makeHealthWriter(sql, dispatcher)
  const wakeups = yield* makeWakeups
  const { now } = yield* StoreClock

  const tellOthers = () => {
    if (shards.shared()) wakeups.rows()
  }

  // A read from its statement to its end: what was written about these rows and their destinations meanwhile is newer than they are.
  const handover: Handover = () => {
    const end = dispatcher.beginReading()
    return (committed) =>
      Effect.sync(() => {
        if (committed !== undefined) {
          const { complete, rows } = committed
          dispatcher.offer(rows, monotonicMillis(clock))
          if (!complete) reader.signal()
          if (!complete || rows.some((row) => !shards.owned.has(row.shard))) tellOthers()
        }
        end()
      })
  }

  const replayed = afterCommit(
    Effect.sync(() => {
      reader.signal()
      tellOthers()
    })
  )

  const queue = makeQueue(callers, channels, now, handover)
  const log = makeLog(callers, dispatcher.isSending)
  const { replay, replayWindow } = makeReplay(callers, channels, queue)
  const retention = makeRetention(sql, list, now, { ...defaultRetention, ...options.retention })
  const sharing = makeSharing(shards, { dispatcher, reader, wakeups }, lease.renewMillis)

  yield* retention.partitions.pipe(
    Effect.catchCause((cause) => Effect.logWarning("Attempts wait for their partitions", cause))
  )
  // The first round is over before the layer is there: a process that is alone sends from its first request on.
  yield* sharing.round.pipe(
    Effect.catchCause((cause) => Effect.logWarning("Deliveries wait for the store", cause))
  )

  yield* runWorkers([
    runForever("Sharing out deliveries", sharing.turn),
    runForever("Reading deliveries", reader.turns.tail),
    runForever("Sweeping deliveries", reader.turns.sweep),
    runForever("Refilling deliveries", reader.turns.refill),
    runForever("Writing what became of deliveries", finisher.turn),
    runForever("Writing how destinations fare", health.turn),
    retention.loop,
    wakeups.notifying,
    wakeups.listening((wakeUp) => {
      if (wakeUp === "shards") sharing.soon()
      else reader.signal()
    })
  ])
  yield* onShutdown(handOver(shards, wakeups, options.drainMillis ?? DRAIN_MILLIS))

  return Delivery.of({
    enqueue: queue.enqueue,
    list: log.list,
    get: log.get,
    replay: (org_id, destination_id, delivery_id) =>
      Effect.andThen(replay(org_id, destination_id, delivery_id), replayed),
    replayWindow: (org_id, destination_id, window) =>
      Effect.tap(replayWindow(org_id, destination_id, window), replayed),
    health: log.health,
    discard: queue.discard,
    figures: makeFigures(sql, channels, shards, dispatcher, reader),
    runRetention: retention.runOnce
  })
})
