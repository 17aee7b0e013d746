import { type Cause, type Clock, Effect, Latch } from "effect"
import type { SqlError } from "effect/sql"
import { monotonicMillis } from "../../concurrency/monotonicMillis.ts"
import type { Worker } from "../../concurrency/Worker.ts"
import type { Dispatcher } from "./Dispatcher.ts"
import type { Reader } from "./Reader.ts"
import type { Shards } from "./Shards.ts"
import type { Wakeups } from "./Wakeups.ts"
import type { WorkerProgress } from "./WorkerProgress.ts"

/** The longest rebalancing, in milliseconds: a hanging database must not hide that leases run out. */
export const REBALANCE_TIMEOUT_MILLIS = 2_000

/**
 * The longest notification, in milliseconds. It goes over a connection of the queue's pool, which may hang; the leases
 * must be renewed meanwhile. The other replicas find the shards at their next renewal.
 */
const NOTIFY_TIMEOUT_MILLIS = 500

/** Notifies the other replicas of released shards, if that is possible. */
export const notifyFreeShards = (wakeups: Pick<Wakeups, "notifyFreeShards">): Effect.Effect<void> =>
  Effect.asVoid(Effect.timeoutOption(wakeups.notifyFreeShards, NOTIFY_TIMEOUT_MILLIS))

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
  /** Starts nothing until the leases are renewed, which it requests now, since the session that renewed them has ended. */
  readonly sessionEnded: () => void
  /**
   * Requests a renewal now, since a result was refused. A process whose machine was suspended together with its clock
   * trusts its leases until then, and would send the deliveries of another replica again. At most one such request
   * between two regular renewals has an effect: a result is also refused if its delivery was removed.
   */
  readonly confirm: () => void
}

/** Starts with no shards. Renewals are on `clock`, the process's own. */
export const makeShardBalancer = (
  shards: Shards,
  clock: Clock.Clock,
  {
    dispatcher,
    progress,
    reader,
    wakeups
  }: {
    readonly dispatcher: Pick<Dispatcher, "dropLostLanes" | "wakeAll">
    readonly progress: Pick<WorkerProgress, "isStuck">
    readonly reader: Pick<Reader, "requestSweep">
    readonly wakeups: Pick<Wakeups, "notifyFreeShards">
  },
  renewMillis: number
): ShardBalancer => {
  const due = Latch.makeUnsafe(false)

  let wasStuck = false
  let confirmedAt = Number.NEGATIVE_INFINITY

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
    if (released.length > 0) yield* notifyFreeShards(wakeups)
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
    trigger: () => void due.openUnsafe(),
    sessionEnded: () => {
      shards.suspend()
      due.openUnsafe()
    },
    confirm: () => {
      const now = monotonicMillis(clock)
      if (now - confirmedAt < renewMillis) return
      confirmedAt = now
      due.openUnsafe()
    }
  }
}
