import { Effect, Fiber } from "effect"
import type { LoopTime } from "../../src/server/concurrency/Company.ts"

/** One pass of the event loop. */
export const pass = Effect.callback<void>((resume) => {
  setImmediate(() => resume(Effect.void))
})

/** A time that only work and waiting for timers take, so that a busy machine changes nothing. */
export const virtualTime = () => {
  const timers = new Set<{ readonly at: number; readonly run: () => void }>()
  let now = 0
  let started = 0
  const time: LoopTime = {
    now: () => now,
    after: (millis, run) => {
      started++
      // As Node's timers: whole milliseconds, and at least one.
      const timer = { at: now + Math.max(1, Math.trunc(millis)), run }
      timers.add(timer)
      return () => void timers.delete(timer)
    }
  }
  const runFirstTimer = () => {
    const [first] = [...timers].toSorted((one, other) => one.at - other.at)
    if (first === undefined) return
    timers.delete(first)
    now = Math.max(now, first.at)
    first.run()
  }
  return {
    time,
    /** Occupies the event loop for some milliseconds. */
    work: (millis: number) => {
      now += millis
    },
    /** Runs an effect to its end. Whenever it waits for a timer, the time passes. */
    elapse: <A, E>(effect: Effect.Effect<A, E>) =>
      Effect.gen(function* () {
        const fiber = yield* Effect.forkChild(effect)
        // A turn is given within two passes, if no timer has to end first.
        while (fiber.pollUnsafe() === undefined) {
          yield* pass
          yield* pass
          yield* pass
          if (fiber.pollUnsafe() === undefined) runFirstTimer()
        }
        return yield* Fiber.join(fiber)
      }),
    timersStarted: () => started
  }
}
