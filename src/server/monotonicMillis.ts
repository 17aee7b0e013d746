import type { Clock } from "effect"

/** Milliseconds on Effect's monotonic clock. */
export const monotonicMillis = (clock: Clock.Clock): number => Number(clock.monotonicTimeNanosUnsafe()) / 1e6
