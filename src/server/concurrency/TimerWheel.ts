import { Clock, Effect, type Fiber, FiberSet, type Scope } from "effect"
import { monotonicMillis } from "./monotonicMillis.ts"

/** The resolution of the wheel: callbacks fire at the end of their tick, at most this late, in milliseconds. */
const TICK_MILLIS = 25

/**
 * Coarse time-outs for work that starts thousands of times a second. `Effect.timeout` costs two fibers and a timer
 * each, more than the work itself, and hardly ever fires; here one fiber sleeps until the first tick that has callbacks
 * left when it falls asleep. If all work ends in time, it wakes about once per time-out, however many were scheduled.
 */
export interface TimerWheel {
  /** Calls `callback` after `millis` milliseconds, up to 25 ms late. Returns a function that cancels it. */
  readonly schedule: (millis: number, callback: () => void) => () => void
}

/** A timer wheel that runs until the scope closes. */
export const makeTimerWheel: Effect.Effect<TimerWheel, never, Scope.Scope> = Effect.gen(function* () {
  const clock = yield* Clock.Clock
  const fork = yield* FiberSet.makeRuntime<never, void, never>()
  /** Callbacks by tick. A tick without callbacks is removed. */
  const ticks = new Map<number, Set<() => void>>()
  let sleeping: { readonly until: number; readonly fiber: Fiber.Fiber<void> } | undefined

  const sleepUntil = (tick: number): void => {
    if (sleeping !== undefined) {
      if (sleeping.until <= tick) return
      sleeping.fiber.interruptUnsafe()
    }
    const millis = Math.max(0, tick * TICK_MILLIS - monotonicMillis(clock))
    const fiber = fork(
      Effect.andThen(
        Effect.sleep(millis),
        Effect.sync(() => fire(tick))
      )
    )
    sleeping = { until: tick, fiber }
  }

  /** Calls the callbacks up to `slept`, and of later ticks that have ended since. */
  const fire = (slept: number): void => {
    sleeping = undefined
    const ended = Math.max(slept, Math.floor(monotonicMillis(clock) / TICK_MILLIS))
    let next = Infinity
    const due: Array<Set<() => void>> = []
    for (const [tick, callbacks] of ticks) {
      if (tick > ended) next = Math.min(next, tick)
      else {
        ticks.delete(tick)
        due.push(callbacks)
      }
    }
    if (next !== Infinity) sleepUntil(next)
    // A set skips the callbacks that an earlier one cancels.
    for (const callbacks of due) for (const callback of callbacks) callback()
  }

  return {
    schedule: (millis, callback) => {
      const tick = Math.ceil((monotonicMillis(clock) + millis) / TICK_MILLIS)
      // A new function each time: the same callback may be scheduled twice.
      const entry = () => callback()
      const callbacks = ticks.get(tick) ?? new Set()
      if (callbacks.size === 0) ticks.set(tick, callbacks)
      callbacks.add(entry)
      sleepUntil(tick)
      return () => {
        callbacks.delete(entry)
        if (callbacks.size === 0 && ticks.get(tick) === callbacks) ticks.delete(tick)
      }
    }
  }
})
