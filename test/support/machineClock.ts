import { type Clock, Effect } from "effect"
import { processClock } from "../../src/server/concurrency/processClock.ts"

/** The process's clocks, whose time of day and monotonic time a test sets apart. */
export const machineClock = () => {
  const ahead = { ofDay: 0, monotonic: 0 }
  const nanos = () => BigInt(ahead.monotonic) * 1_000_000n
  const millis = () => processClock.currentTimeMillisUnsafe() + ahead.ofDay
  const monotonic = () => processClock.monotonicTimeNanosUnsafe() + nanos()
  const clock: Clock.Clock = {
    currentTimeMillisUnsafe: millis,
    currentTimeMillis: Effect.sync(millis),
    currentTimeNanosUnsafe: () => BigInt(millis()) * 1_000_000n,
    currentTimeNanos: Effect.sync(() => BigInt(millis()) * 1_000_000n),
    monotonicTimeNanosUnsafe: monotonic,
    monotonicTimeNanos: Effect.sync(monotonic),
    sleep: (duration) => processClock.sleep(duration)
  }
  return { ahead, clock }
}
