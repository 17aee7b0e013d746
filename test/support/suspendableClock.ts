import { type Clock, Effect } from "effect"

/**
 * The current clock, on which a suspension of the process can be simulated: `suspend` moves the monotonic time forward, but
 * no timer fires, as right after a process continues.
 */
export const suspendableClock = Effect.clockWith((clock) =>
  Effect.sync(() => {
    let suspendedNanos = 0n
    const suspendable: Clock.Clock = {
      currentTimeMillisUnsafe: () => clock.currentTimeMillisUnsafe(),
      currentTimeMillis: clock.currentTimeMillis,
      currentTimeNanosUnsafe: () => clock.currentTimeNanosUnsafe(),
      currentTimeNanos: clock.currentTimeNanos,
      monotonicTimeNanosUnsafe: () => clock.monotonicTimeNanosUnsafe() + suspendedNanos,
      monotonicTimeNanos: clock.monotonicTimeNanos,
      sleep: (duration) => clock.sleep(duration)
    }
    const suspend = (seconds: number): void => {
      suspendedNanos += BigInt(seconds) * 1_000_000_000n
    }
    return { clock: suspendable, suspend }
  })
)
