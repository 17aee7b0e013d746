import { Effect, Schedule } from "effect"
import { RETRY_MILLIS } from "../../concurrency/Worker.ts"
import type { Shards } from "./Shards.ts"
import { notifyFreeShards, REBALANCE_TIMEOUT_MILLIS } from "./ShardBalancer.ts"
import type { Wakeups } from "./Wakeups.ts"

/** How long shutdown tries to release the remaining shards, in milliseconds. */
const RELEASE_TIMEOUT_MILLIS = 3_000

/** Interval between checks for unfinished attempts, in milliseconds. */
const DRAIN_POLL_MILLIS = 20

/**
 * Graceful shutdown of the engine: stops starting attempts, releases each shard once it has no unfinished work, and
 * after `drainMillis` releases all that are left.
 */
export const drain = (shards: Shards, wakeups: Wakeups, drainMillis: number): Effect.Effect<void> => {
  const drained = Effect.gen(function* () {
    while (true) {
      // A short database outage must not end the drain: attempts finish meanwhile and are recorded once the database is
      // back.
      const released = yield* Effect.catchCause(shards.releaseDrained, (cause) =>
        Effect.as(Effect.logDebug("Releasing shards failed, retrying", cause), [])
      )
      if (released.length > 0) yield* notifyFreeShards(wakeups)
      if (shards.owned.size === 0) return
      yield* Effect.sleep(DRAIN_POLL_MILLIS)
    }
  })

  const releasedAll = Effect.retry(shards.releaseAll, Schedule.spaced(RETRY_MILLIS))

  return Effect.timeoutOption(shards.startDraining, REBALANCE_TIMEOUT_MILLIS).pipe(
    Effect.catchCause((cause) =>
      Effect.logDebug("Deregistering failed; peers will notice by the missing heartbeat", cause)
    ),
    Effect.andThen(Effect.timeoutOption(drained, drainMillis)),
    Effect.andThen(Effect.timeoutOption(releasedAll, RELEASE_TIMEOUT_MILLIS)),
    Effect.catchCause((cause) => Effect.logDebug("Releasing shards failed; their leases will expire", cause)),
    Effect.andThen(notifyFreeShards(wakeups))
  )
}
