import { Effect, Schedule } from "effect"
import { RETRY_MILLIS } from "../../concurrency/Worker.ts"
import type { Shards } from "./Shards.ts"
import { SHARE_MILLIS } from "./ShardBalancer.ts"
import type { Wakeups } from "./Wakeups.ts"

/** The longest last word to the store. */
const RESIGN_MILLIS = 3_000

/** Between two looks at what is still under way. */
const DRAIN_STEP_MILLIS = 20

/**
 * Hands over what this process owns: nothing starts any more, each shard goes once nothing of it is under way, and after `drainMillis` all
 * that are left are free.
 */
export const handOver = (shards: Shards, wakeups: Wakeups, drainMillis: number): Effect.Effect<void> => {
  const drained = Effect.gen(function* () {
    while (true) {
      // A store that is away for a moment cuts nothing short: what is under way ends meanwhile, and is written once it is back.
      const released = yield* Effect.catchCause(shards.release, (cause) =>
        Effect.as(Effect.logDebug("Shards are given up a little later", cause), [])
      )
      if (released.length > 0) yield* wakeups.shards
      if (shards.owned.size === 0) return
      yield* Effect.sleep(DRAIN_STEP_MILLIS)
    }
  })

  const resigned = Effect.retry(shards.resign, Schedule.spaced(RETRY_MILLIS))

  return Effect.timeoutOption(shards.leaveAll, SHARE_MILLIS).pipe(
    Effect.catchCause((cause) => Effect.logDebug("The others count on this process a little longer", cause)),
    Effect.andThen(Effect.timeoutOption(drained, drainMillis)),
    Effect.andThen(Effect.timeoutOption(resigned, RESIGN_MILLIS)),
    Effect.catchCause((cause) => Effect.logDebug("Shards run out by themselves", cause)),
    Effect.andThen(wakeups.shards)
  )
}
