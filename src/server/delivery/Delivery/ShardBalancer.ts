import { type Cause, Effect, Latch } from "effect"
import type { SqlError } from "effect/sql"
import type { Worker } from "../../concurrency/Worker.ts"
import type { Dispatcher } from "./Dispatcher.ts"
import type { Reader } from "./Reader.ts"
import type { Shards } from "./Shards.ts"
import type { Wakeups } from "./Wakeups.ts"
import type { WorkerProgress } from "./WorkerProgress.ts"

/** The longest rebalancing, in milliseconds: a hanging database must not hide that leases run out. */
export const REBALANCE_TIMEOUT_MILLIS = 2_000

/** Keeps this replica's share of the shards. */
export interface ShardBalancer {
  /**
   * Renews leases, claims or releases shards, and notifies the other replicas of released shards. Does nothing while
   * the engine is stuck, so that its leases run out and other replicas claim the shards.
   */
  readonly rebalance: Effect.Effect<void, SqlError.SqlError | Cause.TimeoutError>
  /** Rebalances when `trigger` is called, and whenever the leases are due for renewal. */
  readonly worker: Worker<SqlError.SqlError | Cause.TimeoutError, never>
  /** Requests a rebalancing now, since shards were released. */
  readonly trigger: () => void
}

/** Starts with no shards. */
export const makeShardBalancer = (
  shards: Shards,
  {
    dispatcher,
    progress,
    reader,
    wakeups
  }: {
    readonly dispatcher: Dispatcher
    readonly progress: WorkerProgress
    readonly reader: Reader
    readonly wakeups: Wakeups
  },
  renewMillis: number
): ShardBalancer => {
  const due = Latch.makeUnsafe(false)

  let wasStuck = false

  const rebalance = Effect.gen(function* () {
    const isStuck = progress.isStuck()
    if (isStuck && !wasStuck) {
      yield* Effect.logWarning(
        "The delivery queue cannot be read or written; leases are not renewed, so that other replicas take over"
      )
    }
    wasStuck = isStuck
    if (isStuck) return
    const before = new Set(shards.owned.values())
    const released = yield* shards.rebalance.pipe(
      Effect.timeout(REBALANCE_TIMEOUT_MILLIS),
      // Also if the rebalancing failed halfway: a later one would not report the shards that this one lost or gained.
      Effect.ensuring(
        Effect.sync(() => {
          dispatcher.dropLostLanes()
          if ([...shards.owned.values()].some((one) => !before.has(one))) reader.requestSweep()
        })
      )
    )
    if (released.length > 0) yield* wakeups.notifyFreeShards
    dispatcher.wakeAll()
  })

  return {
    rebalance,
    worker: {
      name: "delivery_shards",
      runOnce: Effect.suspend(() => {
        due.closeUnsafe()
        return rebalance
      }),
      every: renewMillis,
      wakeUp: due.await,
      firstRun: "after_pause"
    },
    trigger: () => void due.openUnsafe()
  }
}
