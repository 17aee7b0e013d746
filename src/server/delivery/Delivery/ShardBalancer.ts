import { type Cause, Effect, Latch } from "effect"
import type { SqlError } from "effect/sql"
import type { Dispatcher } from "./Dispatcher.ts"
import type { Reader } from "./Reader.ts"
import type { Shards } from "./Shards.ts"
import type { Wakeups } from "./Wakeups.ts"

/** The longest round of sharing out: a store that hangs must not hide that leases run out. */
export const SHARE_MILLIS = 2_000

/** How this process comes to its share, round after round. */
export interface Sharing {
  /** A round: renews leases, takes or leaves shards, and lets the others know what has changed here. */
  readonly round: Effect.Effect<void, SqlError.SqlError | Cause.TimeoutError>
  /** The next round: when it is called for, else when leases are to be renewed. */
  readonly turn: Effect.Effect<void, SqlError.SqlError | Cause.TimeoutError>
  /** Calls for a round: shards were set free. */
  readonly soon: () => void
}

/** The rounds over these shards, none held yet. */
export const makeSharing = (
  shards: Shards,
  {
    dispatcher,
    reader,
    wakeups
  }: {
    readonly dispatcher: Dispatcher
    readonly reader: Reader
    readonly wakeups: Wakeups
  },
  renewMillis: number
): Sharing => {
  const due = Latch.makeUnsafe(false)

  const round = Effect.gen(function* () {
    const before = new Set(shards.owned.values())
    const released = yield* shards.share.pipe(
      Effect.timeout(SHARE_MILLIS),
      // Also where the round failed halfway: no later one would name what this one has changed.
      Effect.ensuring(
        Effect.sync(() => {
          dispatcher.forgetLost()
          if ([...shards.owned.values()].some((one) => !before.has(one))) reader.sweepSoon()
        })
      )
    )
    if (released.length > 0) yield* wakeups.shards
    dispatcher.kick()
  })

  return {
    round,
    turn: Effect.andThen(
      Effect.timeoutOption(due.await, renewMillis),
      Effect.suspend(() => {
        due.closeUnsafe()
        return round
      })
    ),
    soon: () => void due.openUnsafe()
  }
}
