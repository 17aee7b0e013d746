import { Clock, Effect, type Scope } from "effect"
import { onShutdown, runWorker, startWorkers } from "../../concurrency/Worker.ts"
import { monotonicMillis } from "../../concurrency/monotonicMillis.ts"
import type { Channel } from "../Channel.ts"
import type { BeginEnqueue } from "./DeliveryQueue.ts"
import type { DeliveryStore } from "./DeliveryStore.ts"
import { type Dispatcher, makeDispatcher } from "./Dispatcher.ts"
import { drain } from "./drain.ts"
import { makeFinisher } from "./Finisher.ts"
import { makeHealthWriter } from "./HealthWriter.ts"
import { defaultReader, horizonMillis, makeReader, type Reader, type ReaderOptions } from "./Reader.ts"
import { makeShardBalancer } from "./ShardBalancer.ts"
import { defaultLease, type LeaseOptions, makeShards, type Shards } from "./Shards.ts"
import type { ShardStore } from "./ShardStore.ts"
import { defaultSlots, type SlotOptions } from "./Slots.ts"
import type { Wakeups } from "./Wakeups.ts"
import { makeWorkerProgress } from "./WorkerProgress.ts"

/** Options of the engine in one replica. Omitted options use the defaults documented beside each part. */
export interface EngineOptions {
  readonly lease?: Partial<LeaseOptions>
  readonly slots?: Partial<SlotOptions>
  readonly reader?: Partial<ReaderOptions>
  /**
   * How long shutdown waits for attempts in flight, in milliseconds. Default 6,000, which is longer than a webhook
   * attempt. An attempt of a channel with a longer deadline may be cut off at shutdown and sent again by the next owner
   * of its shard.
   */
  readonly drainMillis?: number
}

/** Longer than the deadline of a webhook attempt (5 s). */
const DRAIN_MILLIS = 6_000

/** All that the engine needs besides its channels. The simulation replaces each of these. */
export interface EngineDependencies {
  readonly shardStore: ShardStore
  readonly store: DeliveryStore
  readonly wakeups: Wakeups
  /** The clock of due times, cooldowns and expiry. Leases and time-outs are on the clock of the current fiber. */
  readonly dueClock: Clock.Clock
  /** The time in the log, in milliseconds since the epoch: the database's, which a machine whose clock is wrong does not change. */
  readonly storeMillis: () => number
}

/** The engine in one replica: it holds leases, reads the queue, sends, and records results. */
export interface Engine {
  readonly dispatcher: Dispatcher
  readonly reader: Reader
  readonly shards: Shards
  /** Tracks a transaction that queues deliveries; its commits go straight to the lanes of the owned shards. */
  readonly beginEnqueue: BeginEnqueue
  /** Reads the queue soon, and notifies the other replicas, because rows were added without `beginEnqueue`. */
  readonly signalNewRows: () => void
  /** Renews the leases at once, since the session that renewed them has ended. */
  readonly sessionEnded: () => void
  /** Claims shards, then runs the workers until the scope closes, which drains the engine first. */
  readonly start: Effect.Effect<void, never, Scope.Scope>
}

/** Reads and sends nothing before `start`. */
export const makeEngine = Effect.fnUntraced(function* (
  channels: ReadonlyMap<string, Channel>,
  { dueClock, shardStore, store, storeMillis, wakeups }: EngineDependencies,
  options: EngineOptions
): Effect.fn.Return<Engine, never, Scope.Scope> {
  const clock = yield* Clock.Clock
  const lease = { ...defaultLease, ...options.lease }
  const reading = { ...defaultReader, ...options.reader }
  const slots = { ...defaultSlots, ...options.slots }
  const shards = makeShards(shardStore, clock, lease)
  const dispatcher = yield* makeDispatcher(channels, shards, slots, horizonMillis(reading), {
    dueClock,
    storeMillis
  })
  const reader = yield* makeReader(store, dueClock, shards, dispatcher, reading)
  const health = makeHealthWriter(store, dispatcher)
  const progress = makeWorkerProgress(clock)
  const parts = { dispatcher, progress, reader, wakeups }
  const balancer = makeShardBalancer(shards, clock, parts, lease.renewMillis)
  const finisher = yield* makeFinisher(store, dueClock, dispatcher, (lane) => {
    if (shards.owned.get(lane.shard) === lane.owned) balancer.confirm()
  })

  const notifyPeers = () => {
    if (shards.hasPeers()) wakeups.signalNewRows()
  }

  return {
    dispatcher,
    reader,
    shards,
    // The insert counts as a read from its statement to the end of its transaction: attempts and health recorded
    // meanwhile are newer than the rows it returns.
    beginEnqueue: () => {
      const end = dispatcher.beginRead()
      const beganAt = monotonicMillis(clock)
      return (committed) =>
        Effect.sync(() => {
          if (committed !== undefined) {
            const { complete, rows } = committed
            dispatcher.offer(rows, monotonicMillis(dueClock), beganAt)
            if (!complete) reader.signalNewRows()
            const owners = rows.map((row) => shards.owned.get(row.shard))
            // Rows of a shard that was claimed during the transaction are not accepted here.
            if (owners.some((owned) => owned !== undefined && owned.claimedAt > beganAt))
              reader.requestSweep()
            if (!complete || owners.includes(undefined)) notifyPeers()
          }
          end()
        })
    },
    sessionEnded: balancer.sessionEnded,
    signalNewRows: () => {
      reader.signalNewRows()
      notifyPeers()
    },
    start: Effect.gen(function* () {
      // The first rebalancing finishes before any worker starts, so a single replica sends deliveries from its first
      // request on.
      yield* balancer.rebalance.pipe(
        Effect.catchCause((cause) =>
          Effect.logWarning("Could not claim shards at start; retrying in the background", cause)
        )
      )
      yield* startWorkers([
        runWorker(balancer.worker),
        runWorker(progress.track(reader.tail, lease.leaseMillis / 2)),
        ...reader.workers.map(runWorker),
        runWorker(progress.track(finisher.worker, lease.leaseMillis)),
        runWorker(health.worker),
        wakeups.runNotifier,
        wakeups.runListener((wakeUp) => {
          switch (wakeUp._tag) {
            case "Shards":
              return balancer.trigger()
            case "Rows":
              return reader.signalNewRows()
            case "CooldownEnded":
              dispatcher.endCooldown(wakeUp.org_id, wakeUp.destination_id)
              // The deliveries of a destination that is not in memory are found by the sweep.
              return reader.requestSweep()
            case "MadeDue":
              dispatcher.makeDue(wakeUp.org_id, wakeUp.destination_id)
              return reader.requestSweep()
          }
        })
      ])
      yield* onShutdown(drain(shards, wakeups, options.drainMillis ?? DRAIN_MILLIS))
    })
  }
})
