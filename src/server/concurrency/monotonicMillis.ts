import { type Clock, Effect } from "effect"

/** Milliseconds on Effect's monotonic clock. */
export const monotonicMillis = (clock: Clock.Clock): number => Number(clock.monotonicTimeNanosUnsafe()) / 1e6

/** Milliseconds on the monotonic clock of the current fiber. */
export const monotonicNow: Effect.Effect<number> = Effect.clockWith((clock) =>
  Effect.sync(() => monotonicMillis(clock))
)
