import { type Duration, Effect, Option, Semaphore } from "effect"

/** Default wait for a permit. */
const WAIT_MILLIS = 5_000

/** Limits of a keyed semaphore. */
export interface KeyedSemaphoreOptions<E> {
  /** Permits of each key. */
  readonly permits: number
  /** Longest wait for a permit. Default 5 s. */
  readonly timeout?: Duration.Input
  /** Runs in place of an effect that waited too long for its permit. */
  readonly onTimeout: Effect.Effect<never, E>
}

/**
 * A semaphore for each key (a bulkhead): one key cannot use up the permits of the others. Waiters get permits in order.
 * The time-out applies to the wait alone: an effect that has started is not limited. An effect may take several
 * permits.
 *
 * Effect's `PartitionedSemaphore` shares one pool of permits among its keys and has no limit per key.
 */
export const makeKeyedSemaphore = <E>(options: KeyedSemaphoreOptions<E>) => {
  const { onTimeout, permits, timeout = WAIT_MILLIS } = options
  /** Semaphores in use: `users` hold a permit or wait for one. */
  const semaphores = new Map<string, { readonly semaphore: Semaphore.Semaphore; users: number }>()

  return (key: string, taken = 1) =>
    <A, E2, R>(self: Effect.Effect<A, E2, R>): Effect.Effect<A, E | E2, R> =>
      Effect.suspend(() => {
        const entry = semaphores.get(key) ?? { semaphore: Semaphore.makeUnsafe(permits), users: 0 }
        semaphores.set(key, entry)
        entry.users++
        return entry.semaphore
          .withPermitsIfAvailable(taken)(self)
          .pipe(
            Effect.flatMap(
              Option.match({
                onNone: () => withTimeout(entry.semaphore.withPermits(taken), self, timeout, onTimeout),
                onSome: Effect.succeed
              })
            ),
            Effect.ensuring(
              Effect.sync(() => {
                if (--entry.users === 0) semaphores.delete(key)
              })
            )
          )
      })
}

/** Waits for a permit, at most `timeout`. */
const withTimeout = <A, E, E2, R>(
  withPermits: ReturnType<Semaphore.Semaphore["withPermits"]>,
  self: Effect.Effect<A, E2, R>,
  timeout: Duration.Input,
  onTimeout: Effect.Effect<never, E>
) =>
  Effect.suspend(() => {
    let started = false
    const run = Effect.suspend(() => {
      started = true
      return self
    })
    const expire = Effect.suspend(() => (started ? Effect.never : onTimeout))
    return Effect.raceFirst(withPermits(run), Effect.andThen(Effect.sleep(timeout), expire))
  })
