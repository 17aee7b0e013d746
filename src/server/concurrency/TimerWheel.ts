import { Clock, Effect, FiberSet, type Scope } from "effect"
import { monotonicMillis } from "./monotonicMillis.ts"

/** The resolution of the wheel: callbacks fire at the end of their tick, at most this late, in milliseconds. */
const TICK_MILLIS = 25

/**
 * Coarse time-outs for work that starts thousands of times a second. `Effect.timeout` costs two fibers and a timer each, more than the work
 * itself, and hardly ever fires; here one fiber serves all callbacks of a tick.
 */
export interface TimerWheel {
  /** Calls `callback` after `millis` milliseconds, up to 25 ms late. Returns a function that cancels it. */
  readonly schedule: (millis: number, callback: () => void) => () => void
}

/** A timer wheel that runs until the scope closes. */
export const makeTimerWheel: Effect.Effect<TimerWheel, never, Scope.Scope> = Effect.gen(function* () {
  const clock = yield* Clock.Clock
  const fork = yield* FiberSet.makeRuntime<never, void, never>()
  const ticks = new Map<number, Set<() => void>>()

  const callbacksOf = (tick: number, now: number): Set<() => void> => {
    const found = ticks.get(tick)
    if (found !== undefined) return found
    const callbacks = new Set<() => void>()
    ticks.set(tick, callbacks)
    fork(
      Effect.flatMap(Effect.sleep(tick * TICK_MILLIS - now), () =>
        Effect.sync(() => {
          ticks.delete(tick)
          for (const callback of callbacks) callback()
        })
      )
    )
    return callbacks
  }

  return {
    schedule: (millis, callback) => {
      const now = monotonicMillis(clock)
      const callbacks = callbacksOf(Math.ceil((now + millis) / TICK_MILLIS), now)
      // A new function each time: the same callback may be scheduled twice.
      const entry = () => callback()
      callbacks.add(entry)
      return () => void callbacks.delete(entry)
    }
  }
})
