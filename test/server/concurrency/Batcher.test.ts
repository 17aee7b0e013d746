import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Exit, Fiber } from "effect"
import { TestClock } from "effect/testing"
import { ConnectionError, SqlError, UniqueViolation } from "effect/sql/SqlError"
import { makeBatcher } from "../../../src/server/concurrency/Batcher.ts"

/** A batcher that notes its batches, and completes them once it is released. */
const setUp = Effect.fnUntraced(function* (abandonedMillis?: number) {
  const batches: Array<ReadonlyArray<number>> = []
  const released = yield* Deferred.make<void>()
  const ended: Array<ReadonlyArray<number>> = []
  const failure = { rejected: undefined as number | undefined, unavailable: false }
  const call = yield* makeBatcher({
    maxBatch: 10,
    ...(abandonedMillis === undefined ? {} : { abandonedMillis }),
    isolates: (error) => error.reason._tag === "UniqueViolation",
    isLarge: (input) => input >= 1_000,
    run: (inputs: ReadonlyArray<number>) =>
      Effect.gen(function* () {
        batches.push(inputs)
        yield* Deferred.await(released)
        if (failure.unavailable) {
          return yield* new SqlError({ reason: new ConnectionError({ cause: "unavailable" }) })
        }
        if (failure.rejected !== undefined && inputs.includes(failure.rejected)) {
          return yield* new SqlError({
            reason: new UniqueViolation({ cause: "duplicate", constraint: "key" })
          })
        }
        ended.push(inputs)
        return inputs.map((input) => input * 2)
      })
  })
  return { batches, call, ended, failure, release: Deferred.succeed(released, undefined) }
})

/** Lets other fibers run. */
const yieldToFibers = Effect.repeat(Effect.yieldNow, { times: 3 })

const numbers = (count: number) => Array.from({ length: count }, (_, index) => index)

describe("Batcher", () => {
  it.effect(
    "calls during a batch gather for the next one, up to the limit, and each gets its own output",
    () =>
      Effect.gen(function* () {
        const { batches, call, release } = yield* setUp()
        const first = yield* Effect.forkChild(call(100))
        const second = yield* Effect.forkChild(call(101))
        yield* Effect.yieldNow
        const others = yield* Effect.forkChild(
          Effect.forEach(numbers(25), call, { concurrency: "unbounded" })
        )
        yield* Effect.yieldNow
        yield* release
        assert.deepStrictEqual(
          yield* Fiber.join(others),
          numbers(25).map((input) => input * 2)
        )
        assert.deepStrictEqual([yield* Fiber.join(first), yield* Fiber.join(second)], [200, 202])
        assert.isBelow(batches.length, 7)
        assert.isTrue(batches.every((inputs) => inputs.length <= 10))
        assert.sameMembers(batches.flat(), [100, 101, ...numbers(25)])
      })
  )

  it.effect("a lone call runs without waiting for others", () =>
    Effect.gen(function* () {
      const { batches, call, release } = yield* setUp()
      yield* release
      for (const input of numbers(3)) assert.strictEqual(yield* call(input), input * 2)
      assert.deepStrictEqual(batches, [[0], [1], [2]])
    })
  )

  it.effect("a rejected input fails its own caller alone", () =>
    Effect.gen(function* () {
      const { call, failure, release } = yield* setUp()
      failure.rejected = 3
      yield* release
      const exits = yield* Effect.forEach(numbers(8), (input) => Effect.exit(call(input)), {
        concurrency: "unbounded"
      })
      exits.forEach((exit, input) => assert.strictEqual(Exit.isSuccess(exit), input !== 3, `${input}`))
    })
  )

  it.effect("an unavailable database fails the whole batch, which does not run again", () =>
    Effect.gen(function* () {
      const { batches, call, failure, release } = yield* setUp()
      failure.unavailable = true
      yield* release
      const exits = yield* Effect.forEach(numbers(5), (input) => Effect.exit(call(input)), {
        concurrency: "unbounded"
      })
      assert.isTrue(exits.every(Exit.isFailure))
      assert.lengthOf(batches.flat(), 5)
    })
  )

  it.effect("a batch that throws before it starts fails its callers, and later batches run", () =>
    Effect.gen(function* () {
      const call = yield* makeBatcher({
        maxBatch: 1,
        run: ([input]: readonly [number, ...Array<number>]) => {
          if (input < 3) throw new Error("a defect")
          return Effect.succeed([input])
        }
      })
      const exits = yield* Effect.forEach(numbers(4), (input) => Effect.exit(call(input)), {
        concurrency: "unbounded"
      })
      assert.deepStrictEqual(exits.map(Exit.isSuccess), [false, false, false, true])
      assert.strictEqual(yield* call(3), 3)
    })
  )

  it.effect("a call that is interrupted while it waits is left out of its batch", () =>
    Effect.gen(function* () {
      const { batches, call, release } = yield* setUp()
      yield* Effect.forkChild(call(100))
      yield* Effect.yieldNow
      yield* Effect.forkChild(call(101))
      yield* Effect.yieldNow
      const leaver = yield* Effect.forkChild(call(1))
      const stays = yield* Effect.forkChild(call(2))
      yield* Effect.yieldNow
      yield* Fiber.interrupt(leaver)
      yield* release
      assert.strictEqual(yield* Fiber.join(stays), 4)
      assert.notInclude(batches.flat(), 1)
    })
  )

  it.effect("a hanging batch is interrupted with its last caller, and the next batch runs", () =>
    Effect.gen(function* () {
      const { batches, call, release } = yield* setUp()
      const first = yield* Effect.forkChild(call(1))
      yield* yieldToFibers
      const second = yield* Effect.forkChild(call(2))
      yield* yieldToFibers
      const late = yield* Effect.forkChild(Effect.forEach([3, 4], call, { concurrency: "unbounded" }))
      yield* yieldToFibers
      yield* Fiber.interrupt(first)
      yield* yieldToFibers
      assert.deepStrictEqual(batches, [[1], [2], [3, 4]])
      yield* Fiber.interrupt(second)
      yield* release
      assert.deepStrictEqual(yield* Fiber.join(late), [6, 8])
    })
  )

  for (const input of [1, 1_000]) {
    it.effect(
      `a batch that may be abandoned runs on after its last caller, and later ones do not wait (${input})`,
      () =>
        Effect.gen(function* () {
          const { batches, call, ended, release } = yield* setUp(1_000)
          const first = yield* Effect.forkChild(call(input))
          const second = yield* Effect.forkChild(call(input + 1))
          yield* yieldToFibers
          yield* Fiber.interrupt(first)
          yield* Fiber.interrupt(second)
          const late = yield* Effect.forkChild(call(3))
          yield* yieldToFibers
          assert.deepInclude(batches, [3])
          yield* TestClock.adjust(999)
          yield* release
          assert.strictEqual(yield* Fiber.join(late), 6)
          assert.sameMembers(ended.flat(), [input, input + 1, 3])
        })
    )

    it.effect(`an abandoned batch that hangs is interrupted in the end (${input})`, () =>
      Effect.gen(function* () {
        const { call, ended, release } = yield* setUp(1_000)
        const caller = yield* Effect.forkChild(call(input))
        yield* yieldToFibers
        yield* Fiber.interrupt(caller)
        yield* TestClock.adjust(1_000)
        yield* release
        yield* yieldToFibers
        assert.isEmpty(ended)
      })
    )
  }

  it.effect("a large input runs alone and immediately", () =>
    Effect.gen(function* () {
      const { batches, call, release } = yield* setUp()
      const calls = yield* Effect.forkChild(
        Effect.forEach([100, 101, 1, 2, 1_000], call, { concurrency: "unbounded" })
      )
      yield* Effect.yieldNow
      yield* Effect.yieldNow
      assert.deepInclude(batches, [1_000])
      yield* release
      assert.deepStrictEqual(yield* Fiber.join(calls), [200, 202, 2, 4, 2_000])
      assert.lengthOf(
        batches.filter((inputs) => inputs.includes(1_000)),
        1
      )
    })
  )

  it.effect("a finalizer registered after the batcher can still call it", () =>
    Effect.gen(function* () {
      const outputs = yield* Effect.scoped(
        Effect.gen(function* () {
          const { call, release } = yield* setUp()
          const found: Array<number> = []
          const calls = yield* Deferred.make<Fiber.Fiber<number, SqlError>>()
          yield* Effect.addFinalizer(() =>
            Effect.gen(function* () {
              yield* release
              found.push(yield* Fiber.join(yield* Deferred.await(calls)), yield* call(2))
            }).pipe(Effect.orDie)
          )
          yield* Deferred.succeed(calls, yield* Effect.forkDetach(call(1)))
          yield* yieldToFibers
          return found
        })
      )
      assert.deepStrictEqual(outputs, [2, 4])
    })
  )
})
