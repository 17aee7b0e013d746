import { Array as Arr, Cause, Effect, Exit, Fiber, FiberSet, type Scope } from "effect"
import type { SqlError } from "effect/sql"
import { isDatabaseUnavailable } from "../store/Database/databaseErrors.ts"
import { isInTransaction } from "../store/Database/transaction.ts"

/** Statements of one kind under way at once: while they are, what comes next gathers. */
const UNDER_WAY = 2

interface PendingRequest<Input, Output> {
  readonly input: Input
  readonly resume: (exit: Exit.Exit<Output, SqlError.SqlError>) => void
  /** The statement it is in; undefined while it waits for one. */
  statement: { callers: number; readonly callOff: () => void } | undefined
  gone: boolean
}

/**
 * One statement for many callers, who are strangers to each other: whoever asks while statements are under way goes into the next one,
 * `atOnce` of them at most. Nobody waits for others to come, so that a lone caller is as fast as without this. `run` answers with one
 * output for each input, in their order. What the store refuses is run again one by one: a caller's fault stays its own. A statement whose
 * callers have all gone is called off: one that hangs holds up nobody longer than its callers wait. Within a transaction a caller is alone,
 * and its statement part of it; so is an input of which `isLarge` is true, for which others would wait.
 */
export const makeBatcher = Effect.fnUntraced(function* <Input, Output>(options: {
  readonly maxBatch: number
  readonly isLarge?: (input: Input) => boolean
  readonly run: (
    inputs: Arr.NonEmptyReadonlyArray<Input>
  ) => Effect.Effect<ReadonlyArray<Output>, SqlError.SqlError>
}): Effect.fn.Return<(input: Input) => Effect.Effect<Output, SqlError.SqlError>, never, Scope.Scope> {
  // Ended when this is, in the order of what was made: what ends before it may still ask.
  const fork = yield* FiberSet.makeRuntime<never, unknown, SqlError.SqlError>()
  const waiting = new Set<PendingRequest<Input, Output>>()
  let underWay = 0
  let gathering = false

  const begin = (group: Arr.NonEmptyReadonlyArray<PendingRequest<Input, Output>>) => {
    // What throws before it begins fails its callers too, and keeps no place under way.
    const fiber = fork(Effect.suspend(() => options.run(Arr.map(group, ({ input }) => input))))
    const statement = { callers: group.length, callOff: () => fiber.interruptUnsafe() }
    for (const one of group) one.statement = statement
    return fiber
  }

  const runAll = (group: Arr.NonEmptyReadonlyArray<PendingRequest<Input, Output>>): Effect.Effect<void> =>
    Effect.flatMap(
      Effect.suspend(() => Fiber.await(begin(group))),
      (exit) => {
        if (group.length > 1 && isRefused(exit)) {
          return Effect.forEach(group, (one) => (one.gone ? Effect.void : runAll([one])), { discard: true })
        }
        return Effect.sync(() =>
          group.forEach(({ resume }, index) =>
            resume(Exit.isSuccess(exit) ? outputAt(exit.value, index) : Exit.failCause(exit.cause))
          )
        )
      }
    )

  const leave = (one: PendingRequest<Input, Output>): void => {
    one.gone = true
    if (one.statement === undefined) waiting.delete(one)
    else if (--one.statement.callers === 0) one.statement.callOff()
  }

  /** Who goes into the next statement. A flight that finds nobody has ended by then: who comes next begins another. */
  const next = (): ReadonlyArray<PendingRequest<Input, Output>> => {
    gathering = false
    const group: Array<PendingRequest<Input, Output>> = []
    for (const one of waiting) {
      if (group.length === options.maxBatch) break
      group.push(one)
      waiting.delete(one)
    }
    if (group.length === 0) underWay--
    return group
  }

  const flight = Effect.gen(function* () {
    // Whoever came in the same turn of the event loop is there after this.
    yield* Effect.yieldNow
    for (;;) {
      const group = next()
      if (!Arr.isReadonlyArrayNonEmpty(group)) return
      yield* runAll(group)
    }
  })

  return (input) =>
    Effect.flatMap(isInTransaction, (inside) => {
      if (inside || options.isLarge?.(input) === true) {
        return Effect.flatMap(options.run([input]), (outputs) => outputAt(outputs, 0))
      }
      return Effect.callback<Output, SqlError.SqlError>((resume) => {
        const one: PendingRequest<Input, Output> = { input, resume, statement: undefined, gone: false }
        waiting.add(one)
        if (!gathering && underWay < UNDER_WAY) {
          gathering = true
          underWay++
          fork(flight)
        }
        return Effect.sync(() => leave(one))
      })
    })
})

/** The store said no to a statement, and not that it is away. */
const isRefused = (exit: Exit.Exit<unknown, SqlError.SqlError>): boolean =>
  Exit.isFailure(exit) &&
  exit.cause.reasons.some((reason) => Cause.isFailReason(reason) && !isDatabaseUnavailable(reason.error))

const outputAt = <Output>(outputs: ReadonlyArray<Output>, index: number): Exit.Exit<Output> => {
  const output = outputs[index]
  return output === undefined
    ? Exit.die(new Error("A statement has no answer for one of its inputs"))
    : Exit.succeed(output)
}
