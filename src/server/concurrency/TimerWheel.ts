import { Clock, Effect, FiberSet, type Scope } from "effect"
import { monotonicMillis } from "./monotonicMillis.ts"

/** Alarms of the same span ring together, at its end: this late at most, in milliseconds. */
const TICK_MILLIS = 25

/**
 * Deadlines for what runs thousands of times a second. A race of each with a sleep of its own costs two fibers and a timer more than
 * the work at hand, and hardly ever rings; here a fiber serves all that are due in the same span.
 */
export interface TimerWheel {
  /** Calls `ring` once so many milliseconds have passed, up to 25 ms late. Answers with how to call it off. */
  readonly schedule: (millis: number, ring: () => void) => () => void
}

/** Alarms that ring as long as the scope is open. */
export const makeTimerWheel: Effect.Effect<TimerWheel, never, Scope.Scope> = Effect.gen(function* () {
  const clock = yield* Clock.Clock
  const fork = yield* FiberSet.makeRuntime<never, void, never>()
  const spans = new Map<number, Set<() => void>>()

  const spanOf = (number: number, now: number): Set<() => void> => {
    const found = spans.get(number)
    if (found !== undefined) return found
    const made = new Set<() => void>()
    spans.set(number, made)
    fork(
      Effect.flatMap(Effect.sleep(number * TICK_MILLIS - now), () =>
        Effect.sync(() => {
          spans.delete(number)
          for (const ring of made) ring()
        })
      )
    )
    return made
  }

  return {
    schedule: (millis, ring) => {
      const now = monotonicMillis(clock)
      const span = spanOf(Math.ceil((now + millis) / TICK_MILLIS), now)
      // A function of its own: the same one may be set twice.
      const entry = () => ring()
      span.add(entry)
      return () => void span.delete(entry)
    }
  }
})
