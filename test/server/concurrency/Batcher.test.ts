import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Exit, Fiber } from "effect"
import { ConnectionError, SqlError, UniqueViolation } from "effect/sql/SqlError"
import { makeBatcher } from "../../../src/server/concurrency/Batcher.ts"

/** A store that notes its statements, and answers once it is let to. */
const store = Effect.gen(function* () {
  const statements: Array<ReadonlyArray<number>> = []
  const free = yield* Deferred.make<void>()
  const failure = { refuses: undefined as number | undefined, away: false }
  const ask = yield* makeBatcher({
    maxBatch: 10,
    isLarge: (input) => input >= 1_000,
    run: (inputs: ReadonlyArray<number>) =>
      Effect.gen(function* () {
        statements.push(inputs)
        yield* Deferred.await(free)
        if (failure.away) return yield* new SqlError({ reason: new ConnectionError({ cause: "away" }) })
        if (failure.refuses !== undefined && inputs.includes(failure.refuses)) {
          return yield* new SqlError({ reason: new UniqueViolation({ cause: "there", constraint: "key" }) })
        }
        return inputs.map((input) => input * 2)
      })
  })
  return { ask, failure, free: Deferred.succeed(free, undefined), statements }
})

/** Lets fibers go on that have something to do. */
const turns = Effect.repeat(Effect.yieldNow, { times: 3 })

const numbers = (count: number) => Array.from({ length: count }, (_, index) => index)

describe("statements for many callers", () => {
  it.effect(
    "take whoever comes while others are under way, as many as they may, and give each its own answer",
    () =>
      Effect.gen(function* () {
        const { ask, free, statements } = yield* store
        const first = yield* Effect.forkChild(ask(100))
        const second = yield* Effect.forkChild(ask(101))
        yield* Effect.yieldNow
        const others = yield* Effect.forkChild(Effect.forEach(numbers(25), ask, { concurrency: "unbounded" }))
        yield* Effect.yieldNow
        yield* free
        assert.deepStrictEqual(
          yield* Fiber.join(others),
          numbers(25).map((input) => input * 2)
        )
        assert.deepStrictEqual([yield* Fiber.join(first), yield* Fiber.join(second)], [200, 202])
        assert.isBelow(statements.length, 7)
        assert.isTrue(statements.every((inputs) => inputs.length <= 10))
        assert.sameMembers(statements.flat(), [100, 101, ...numbers(25)])
      })
  )

  it.effect("answer a lone caller without waiting for others", () =>
    Effect.gen(function* () {
      const { ask, free, statements } = yield* store
      yield* free
      for (const input of numbers(3)) assert.strictEqual(yield* ask(input), input * 2)
      assert.deepStrictEqual(statements, [[0], [1], [2]])
    })
  )

  it.effect("that the store refuses fail for the caller at fault alone", () =>
    Effect.gen(function* () {
      const { ask, failure, free } = yield* store
      failure.refuses = 3
      yield* free
      const exits = yield* Effect.forEach(numbers(8), (input) => Effect.exit(ask(input)), {
        concurrency: "unbounded"
      })
      exits.forEach((exit, input) => assert.strictEqual(Exit.isSuccess(exit), input !== 3, `${input}`))
    })
  )

  it.effect("fail for all of them where the store is away, and are not sent again", () =>
    Effect.gen(function* () {
      const { ask, failure, free, statements } = yield* store
      failure.away = true
      yield* free
      const exits = yield* Effect.forEach(numbers(5), (input) => Effect.exit(ask(input)), {
        concurrency: "unbounded"
      })
      assert.isTrue(exits.every(Exit.isFailure))
      assert.lengthOf(statements.flat(), 5)
    })
  )

  it.effect("fail for their callers where they throw before they begin, and others go on", () =>
    Effect.gen(function* () {
      const ask = yield* makeBatcher({
        maxBatch: 1,
        run: ([input]: readonly [number, ...Array<number>]) => {
          if (input < 3) throw new Error("a fault of ours")
          return Effect.succeed([input])
        }
      })
      const exits = yield* Effect.forEach(numbers(4), (input) => Effect.exit(ask(input)), {
        concurrency: "unbounded"
      })
      assert.deepStrictEqual(exits.map(Exit.isSuccess), [false, false, false, true])
      assert.strictEqual(yield* ask(3), 3)
    })
  )

  it.effect("leave out whoever has gone while waiting, and go on for the others", () =>
    Effect.gen(function* () {
      const { ask, free, statements } = yield* store
      yield* Effect.forkChild(ask(100))
      yield* Effect.yieldNow
      yield* Effect.forkChild(ask(101))
      yield* Effect.yieldNow
      const gone = yield* Effect.forkChild(ask(1))
      const stays = yield* Effect.forkChild(ask(2))
      yield* Effect.yieldNow
      yield* Fiber.interrupt(gone)
      yield* free
      assert.strictEqual(yield* Fiber.join(stays), 4)
      assert.notInclude(statements.flat(), 1)
    })
  )

  it.effect("that hang are called off when nobody waits for them any more, and others go on", () =>
    Effect.gen(function* () {
      const { ask, free, statements } = yield* store
      const first = yield* Effect.forkChild(ask(1))
      yield* turns
      const second = yield* Effect.forkChild(ask(2))
      yield* turns
      const late = yield* Effect.forkChild(Effect.forEach([3, 4], ask, { concurrency: "unbounded" }))
      yield* turns
      yield* Fiber.interrupt(first)
      yield* turns
      assert.deepStrictEqual(statements, [[1], [2], [3, 4]])
      yield* Fiber.interrupt(second)
      yield* free
      assert.deepStrictEqual(yield* Fiber.join(late), [6, 8])
    })
  )

  it.effect("have what is large go by itself, at once, so that nobody waits for it", () =>
    Effect.gen(function* () {
      const { ask, free, statements } = yield* store
      const asked = yield* Effect.forkChild(
        Effect.forEach([100, 101, 1, 2, 1_000], ask, { concurrency: "unbounded" })
      )
      yield* Effect.yieldNow
      yield* Effect.yieldNow
      assert.deepInclude(statements, [1_000])
      yield* free
      assert.deepStrictEqual(yield* Fiber.join(asked), [200, 202, 2, 4, 2_000])
      assert.lengthOf(
        statements.filter((inputs) => inputs.includes(1_000)),
        1
      )
    })
  )

  it.effect("end after what was made after them: it may still have their answers when it ends", () =>
    Effect.gen(function* () {
      const answers = yield* Effect.scoped(
        Effect.gen(function* () {
          const { ask, free } = yield* store
          const found: Array<number> = []
          const asked = yield* Deferred.make<Fiber.Fiber<number, SqlError>>()
          yield* Effect.addFinalizer(() =>
            Effect.gen(function* () {
              yield* free
              found.push(yield* Fiber.join(yield* Deferred.await(asked)), yield* ask(2))
            }).pipe(Effect.orDie)
          )
          yield* Deferred.succeed(asked, yield* Effect.forkDetach(ask(1)))
          yield* turns
          return found
        })
      )
      assert.deepStrictEqual(answers, [2, 4])
    })
  )
})
