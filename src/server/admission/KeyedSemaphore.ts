import { type Duration, Effect, Exit, Fiber } from "effect"

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

/** An effect that waits for permits. */
interface Waiter {
  readonly permits: number
  isGranted: boolean
  resume: (isGranted: boolean) => void
}

/** The permits of one key. */
interface KeyPermits {
  free: number
  /** In the order of arrival. */
  readonly waiting: Set<Waiter>
}

/**
 * A semaphore for each key (a bulkhead): one key cannot use up the permits of the others. An effect may take several
 * permits. Waiters get permits strictly in order: one that takes many is not overtaken by later ones that take few. The
 * time-out applies to the wait alone: an effect that has started is not limited.
 *
 * Effect's `PartitionedSemaphore` shares one pool of permits among its keys and has no limit per key; its `Semaphore`
 * lets smaller requests overtake a larger one without end.
 */
export const makeKeyedSemaphore = <E>(options: KeyedSemaphoreOptions<E>) => {
  const { onTimeout, permits, timeout = WAIT_MILLIS } = options
  /** Keys with permits in use or with waiters. */
  const keys = new Map<string, KeyPermits>()

  /** Grants permits to waiters, and forgets a key that is not in use. */
  const update = (key: string, state: KeyPermits): void => {
    for (const waiter of state.waiting) {
      if (waiter.permits > state.free) break
      state.waiting.delete(waiter)
      state.free -= waiter.permits
      waiter.isGranted = true
      waiter.resume(true)
    }
    if (state.free === permits && state.waiting.size === 0 && keys.get(key) === state) keys.delete(key)
  }

  const release = (key: string, state: KeyPermits, taken: number): void => {
    state.free += taken
    update(key, state)
  }

  /** Waits for permits; false if the time-out ends first. */
  const wait = (key: string, state: KeyPermits, waiter: Waiter): Effect.Effect<boolean> => {
    const expire = () => {
      if (!state.waiting.delete(waiter)) return
      update(key, state)
      waiter.resume(false)
    }
    // Interruptible also where its caller is not, such as while a run is logged.
    const timer = Effect.interruptible(Effect.andThen(Effect.sleep(timeout), Effect.sync(expire)))
    return Effect.flatMap(Effect.forkChild(timer), (fiber) =>
      Effect.ensuring(
        Effect.callback<boolean>((resume) => {
          if (waiter.isGranted) return resume(Effect.succeed(true))
          waiter.resume = (isGranted) => resume(Effect.succeed(isGranted))
        }),
        Fiber.interrupt(fiber)
      )
    )
  }

  return (key: string, taken = 1) =>
    <A, E2, R>(self: Effect.Effect<A, E2, R>): Effect.Effect<A, E | E2, R> =>
      Effect.uninterruptibleMask((restore): Effect.Effect<A, E | E2, R> => {
        const state = keys.get(key) ?? { free: permits, waiting: new Set() }
        keys.set(key, state)
        const run = Effect.onExit(restore(self), () => Effect.sync(() => release(key, state, taken)))
        if (state.waiting.size === 0 && taken <= state.free) {
          state.free -= taken
          return run
        }
        const waiter: Waiter = { permits: taken, isGranted: false, resume: () => undefined }
        state.waiting.add(waiter)
        const leave = (exit: Exit.Exit<boolean>) =>
          Effect.sync(() => {
            if (Exit.isSuccess(exit)) return
            if (waiter.isGranted) release(key, state, taken)
            else if (state.waiting.delete(waiter)) update(key, state)
          })
        return Effect.flatMap(
          Effect.onExit(restore(wait(key, state, waiter)), leave),
          (isGranted): Effect.Effect<A, E | E2, R> => (isGranted ? run : restore(onTimeout))
        )
      })
}
