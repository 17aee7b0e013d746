import { Clock, Duration, Effect } from "effect"

const HOUR_MILLIS = 3_600_000

/** Waits for the next hour if less than this is left of the current one: for tests whose counts by hour or by day must be in one of them. */
export const awaitRestOfHour = (needed: Duration.Input) =>
  Effect.flatMap(Clock.currentTimeMillis, (now) => {
    const left = HOUR_MILLIS - (now % HOUR_MILLIS)
    return left < Duration.toMillis(needed) ? Effect.sleep(Duration.millis(left)) : Effect.void
  })
