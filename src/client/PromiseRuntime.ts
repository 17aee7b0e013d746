/** Runs the promises of `connect` for an Effect program, with its clock and its services. */
import { Cause, Clock, type Context, Effect, Exit, Random, Stream } from "effect"
import type { Clock as PromiseClock } from "./connect/wait.ts"

/** The program's side of promises that wait for it. */
export interface PromiseRuntime {
  readonly clock: PromiseClock
  /** Runs an effect of the program; rejects with its error. */
  readonly run: <A, E>(effect: Effect.Effect<A, E>, signal: AbortSignal) => Promise<A>
  /** Turns a promise back into an effect, which fails with the errors of what {@link run} ran. Interruption aborts the signal. */
  readonly promise: <A, E>(make: (signal: AbortSignal) => Promise<A>) => Effect.Effect<A, E>
  /** Turns an iterable back into a stream. */
  readonly stream: <A, E>(make: (signal: AbortSignal) => AsyncGenerator<A>) => Stream.Stream<A, E>
}

/** A defect on its way through a promise. */
class Defect {
  readonly cause: Cause.Cause<never>

  constructor(cause: Cause.Cause<never>) {
    this.cause = cause
  }
}

/** Fails with the error of a rejected promise: one that an effect failed with, or one of `connect`. */
const fromRejection = <E>(reason: unknown): Effect.Effect<never, E> =>
  reason instanceof Defect
    ? Effect.failCause(reason.cause)
    : // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the promises reject with nothing else
      Effect.fail(reason as E)

export const makeRuntime: Effect.Effect<PromiseRuntime> = Effect.map(
  Effect.context<never>(),
  (context: Context.Context<never>): PromiseRuntime => {
    const runExit = Effect.runPromiseExitWith(context)
    const run: PromiseRuntime["run"] = async (effect, signal) => {
      const exit = await runExit(effect, { signal })
      if (Exit.isSuccess(exit)) return exit.value
      signal.throwIfAborted()
      const failure = Cause.findError(exit.cause)
      throw failure._tag === "Success" ? failure.success : new Defect(failure.failure)
    }
    const runSync = Effect.runSyncWith(context)
    return {
      run,
      clock: {
        now: () => Number(runSync(Clock.monotonicTimeNanos)) / 1e6,
        random: () => runSync(Random.next),
        sleep: (millis, signal) => run(Effect.sleep(millis), signal)
      },
      promise: <A, E>(make: (signal: AbortSignal) => Promise<A>) =>
        Effect.tryPromise({ try: make, catch: (reason) => ({ reason }) }).pipe(
          Effect.catch(({ reason }) => fromRejection<E>(reason))
        ),
      stream: <A, E>(make: (signal: AbortSignal) => AsyncGenerator<A>) =>
        Stream.fromAsyncIterable(abortable(make), (reason) => reason).pipe(
          Stream.catch((reason) => Stream.fromEffect(fromRejection<E>(reason)))
        )
    }
  }
)

/** An iterable whose end aborts the signal: a generator that awaits would end only after it. */
const abortable = <A>(make: (signal: AbortSignal) => AsyncGenerator<A>): AsyncIterable<A> => ({
  [Symbol.asyncIterator]: () => {
    const controller = new AbortController()
    const generator = make(controller.signal)
    return {
      next: () => generator.next(),
      return: () => {
        controller.abort()
        return generator.return(undefined)
      }
    }
  }
})
