/**
 * Work that a service goes on doing while its scope is open, and its last word when that closes.
 */
import { Effect, Fiber, type Scope } from "effect"

/** Between two tries of a turn that failed. */
export const AGAIN_MILLIS = 500

/** Takes turns for ever. One that fails is logged as `what` and tried again: nothing ends the loop but its scope. */
export const runForever = <E, R>(
  what: string,
  turn: Effect.Effect<void, E, R>
): Effect.Effect<never, never, R> =>
  turn.pipe(
    Effect.catchCause((cause) =>
      Effect.andThen(
        Effect.logWarning(`${what} failed and is tried again`, cause),
        Effect.sleep(AGAIN_MILLIS)
      )
    ),
    Effect.forever
  )

/** Runs the loops side by side until the scope closes. */
export const runWorkers = <R>(
  loops: ReadonlyArray<Effect.Effect<never, never, R>>
): Effect.Effect<void, never, R | Scope.Scope> =>
  Effect.asVoid(Effect.forkScoped(Effect.all(loops, { concurrency: "unbounded", discard: true })))

/**
 * Does this when the scope closes, to its end. It has a fiber of its own: the one that closes the scope may itself have been
 * interrupted, and would cut the waits short.
 */
export const onShutdown = <R>(
  last: Effect.Effect<void, never, R>
): Effect.Effect<void, never, R | Scope.Scope> =>
  Effect.addFinalizer(() =>
    Effect.flatMap(Effect.forkDetach(Effect.interruptible(last)), (fiber) => Fiber.await(fiber))
  )
