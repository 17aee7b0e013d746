import { Array as Arr, Cause, Effect, Exit, Fiber, FiberSet, type Scope } from "effect"

/** Default of `maxInFlight`. */
const MAX_IN_FLIGHT = 2

/** A request and the batch that it is part of. */
interface PendingRequest<Input, Output, E> {
  readonly input: Input
  readonly resume: (exit: Exit.Exit<Output, E>) => void
  /** Undefined while the request waits for a batch. */
  batch: { requests: number; readonly cancel: () => void } | undefined
  cancelled: boolean
}

/** How a batcher runs its batches. */
export interface BatcherOptions<Input, Output, E> {
  /** The largest number of inputs in one batch. */
  readonly maxBatch: number
  /** Batches in flight at a time. While they run, new requests gather for the next batch. Default 2. */
  readonly maxInFlight?: number
  /** The group of an input: a batch contains inputs of one group only. Default: all are of one group. */
  readonly groupOf?: (input: Input) => string
  /** Inputs that run alone and immediately, so that small inputs do not wait for a large one. Default: none. */
  readonly isLarge?: (input: Input) => boolean
  /** Whether a request runs alone, as part of its caller's work, such as in an open transaction. Default: never. */
  readonly runsAlone?: Effect.Effect<boolean>
  /**
   * How long a batch runs on after all its callers were interrupted, in milliseconds. For batches that commit: one that was interrupted on
   * its way back from the database would skip what `run` does after the commit. Later batches do not wait for it. Default 0: the batch is
   * interrupted with its last caller.
   */
  readonly abandonedMillis?: number
  /**
   * Whether the inputs of a failed batch run again one by one, so that a faulty input fails its own caller only. Pointless for errors that
   * are no input's fault, such as a lost connection. Default: always.
   */
  readonly isolates?: (error: E) => boolean
  /** Runs a batch: one output for each input, in the order of the inputs. */
  readonly run: (inputs: Arr.NonEmptyReadonlyArray<Input>) => Effect.Effect<ReadonlyArray<Output>, E>
}

/**
 * Batches concurrent calls (group commit): while batches are in flight, new calls gather for the next one. There is no
 * delay window, so a lone call is as fast as an unbatched one. A batch is interrupted or left to itself
 * (`abandonedMillis`) when all its callers are interrupted, so that a hanging statement does not block later batches
 * for longer than its callers wait.
 *
 * Effect's `RequestResolver` batches by a delay window, keeps running a batch that no caller waits for, and does not
 * isolate a faulty input.
 */
export const makeBatcher = Effect.fnUntraced(function* <Input, Output, E>(
  options: BatcherOptions<Input, Output, E>
): Effect.fn.Return<(input: Input) => Effect.Effect<Output, E>, never, Scope.Scope> {
  // Finalizers run in reverse order: a service that is built after the batcher may still call it while it shuts down.
  const fork = yield* FiberSet.makeRuntime<never, unknown, E>()
  const {
    abandonedMillis = 0,
    groupOf = () => "",
    isolates = () => true,
    maxInFlight = MAX_IN_FLIGHT,
    runsAlone = Effect.succeed(false)
  } = options
  const pending = new Set<PendingRequest<Input, Output, E>>()
  let inFlight = 0
  let gathering = false

  /** Completes when the batch has ended, or when it was abandoned and may run on. */
  const start = (
    group: Arr.NonEmptyReadonlyArray<PendingRequest<Input, Output, E>>
  ): Effect.Effect<Exit.Exit<ReadonlyArray<Output>, E>> =>
    Effect.callback((resume) => {
      // Suspended, so that a `run` that throws fails its callers and frees its place in flight.
      const fiber = fork(Effect.suspend(() => options.run(Arr.map(group, ({ input }) => input))))
      const cancel = () => {
        if (abandonedMillis === 0) return fiber.interruptUnsafe()
        resume(Effect.succeed(Exit.interrupt()))
        fork(
          Effect.andThen(Effect.timeoutOption(Fiber.await(fiber), abandonedMillis), Fiber.interrupt(fiber))
        )
      }
      const batch = { requests: group.length, cancel }
      for (const request of group) request.batch = batch
      fiber.addObserver((exit) => resume(Effect.succeed(exit)))
    })

  const hasFaultyInput = (exit: Exit.Exit<unknown, E>): boolean =>
    Exit.isFailure(exit) &&
    exit.cause.reasons.some((reason) => Cause.isFailReason(reason) && isolates(reason.error))

  const runBatch = (
    group: Arr.NonEmptyReadonlyArray<PendingRequest<Input, Output, E>>
  ): Effect.Effect<void> =>
    Effect.flatMap(start(group), (exit) => {
      if (group.length > 1 && hasFaultyInput(exit)) {
        return Effect.forEach(group, (request) => (request.cancelled ? Effect.void : runBatch([request])), {
          discard: true
        })
      }
      return Effect.sync(() =>
        group.forEach(({ resume }, index) =>
          resume(Exit.isSuccess(exit) ? outputAt(exit.value, index) : Exit.failCause(exit.cause))
        )
      )
    })

  const cancel = (request: PendingRequest<Input, Output, E>): void => {
    request.cancelled = true
    if (request.batch === undefined) pending.delete(request)
    else if (--request.batch.requests === 0) request.batch.cancel()
  }

  /** Takes the requests of the next batch. A drain that gets none ends, and the next request starts another. */
  const takeBatch = (): ReadonlyArray<PendingRequest<Input, Output, E>> => {
    gathering = false
    const group: Array<PendingRequest<Input, Output, E>> = []
    let name: string | undefined
    for (const request of pending) {
      if (group.length === options.maxBatch) break
      name ??= groupOf(request.input)
      if (groupOf(request.input) !== name) continue
      group.push(request)
      pending.delete(request)
    }
    if (group.length === 0) inFlight--
    return group
  }

  /** Runs batches until no request is pending. */
  const drain = Effect.gen(function* () {
    // Requests of the same tick of the event loop gather before the first batch is taken.
    yield* Effect.yieldNow
    for (;;) {
      const group = takeBatch()
      if (!Arr.isReadonlyArrayNonEmpty(group)) return
      yield* runBatch(group)
    }
  })

  return (input) =>
    Effect.flatMap(runsAlone, (alone) => {
      if (alone) return Effect.flatMap(options.run([input]), (outputs) => outputAt(outputs, 0))
      return Effect.callback<Output, E>((resume) => {
        const request: PendingRequest<Input, Output, E> = {
          input,
          resume,
          batch: undefined,
          cancelled: false
        }
        if (options.isLarge?.(input) === true) {
          fork(Effect.suspend(() => (request.cancelled ? Effect.void : runBatch([request]))))
          return Effect.sync(() => cancel(request))
        }
        pending.add(request)
        if (!gathering && inFlight < maxInFlight) {
          gathering = true
          inFlight++
          fork(drain)
        }
        return Effect.sync(() => cancel(request))
      })
    })
})

const outputAt = <Output>(outputs: ReadonlyArray<Output>, index: number): Exit.Exit<Output> => {
  const output = outputs[index]
  return output === undefined
    ? Exit.die(new Error("A batch has no output for one of its inputs"))
    : Exit.succeed(output)
}
