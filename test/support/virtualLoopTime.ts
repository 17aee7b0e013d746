import { Effect, Fiber } from "effect"
import type { LoopTime } from "../../src/server/admission/LoopShares.ts"

/** One pass of the event loop. */
export const pass = Effect.callback<void>((resume) => {
  setImmediate(() => resume(Effect.void))
})

/**
 * A time that only work and waiting for timers take, so that a busy machine changes nothing. With `isBusy`, other work
 * than that of the test keeps the event loop busy.
 */
export const virtualTime = ({ isBusy = false }: { readonly isBusy?: boolean } = {}) => {
  const timers = new Set<{ readonly at: number; readonly run: () => void }>()
  let now = 0
  let started = 0
  let worked = 0
  const time: LoopTime = {
    now: () => now,
    busyMillis: () => (isBusy ? now : worked),
    after: (millis, run) => {
      started++
      // As Node's timers: whole milliseconds, and at least one.
      const timer = { at: now + Math.max(1, Math.trunc(millis)), run }
      timers.add(timer)
      return () => void timers.delete(timer)
    }
  }
  const hasDueTimer = () => [...timers].some(({ at }) => at <= now)
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
      worked += millis
    },
    /** Lets time pass. Timers that are due run with the next effect that waits for one. */
    pause: (millis: number) => {
      now += millis
    },
    /** Runs an effect to its end. Whenever nothing but timers is left to do, the time passes. */
    elapse: <A, E>(effect: Effect.Effect<A, E>) =>
      Effect.gen(function* () {
        const fiber = yield* Effect.forkChild(effect)
        // A turn is given within two passes, if no timer has to end first.
        while (fiber.pollUnsafe() === undefined) {
          const before = now
          yield* pass
          yield* pass
          yield* pass
          if (fiber.pollUnsafe() !== undefined) break
          if (now === before) runFirstTimer()
          else while (hasDueTimer()) runFirstTimer()
        }
        return yield* Fiber.join(fiber)
      }),
    timersStarted: () => started
  }
}
