import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber, Option } from "effect"
import { TestClock } from "effect/testing"
import { isDatabaseUnavailable } from "../../../src/server/store/Database/databaseErrors.ts"
import { makeKeyedSemaphore } from "../../../src/server/concurrency/KeyedSemaphore.ts"

/** Two turns each, and an effect that ends when it is told to. */
const two = Effect.gen(function* () {
  const end = yield* Deferred.make<void>()
  return { end: Deferred.succeed(end, undefined), held: Deferred.await(end), turnOf: makeKeyedSemaphore(2) }
})

describe("turns", () => {
  it.effect("are as many for each holder, whatever others hold", () =>
    Effect.gen(function* () {
      const { end, held, turnOf } = yield* two
      const first = yield* Effect.forkChild(Effect.replicateEffect(turnOf("a")(held), 2, { concurrency: 2 }))
      const third = yield* Effect.forkChild(turnOf("a")(Effect.succeed("after them")))
      yield* Effect.yieldNow
      assert.strictEqual(yield* turnOf("b")(Effect.succeed("at once")), "at once")
      assert.isUndefined(third.pollUnsafe())
      yield* end
      yield* Fiber.join(first)
      assert.strictEqual(yield* Fiber.join(third), "after them")
    })
  )

  it.effect("are waited for five seconds at most; what has begun takes as long as it takes", () =>
    Effect.gen(function* () {
      const { end, held, turnOf } = yield* two
      const first = yield* Effect.forkChild(Effect.replicateEffect(turnOf("a")(held), 2, { concurrency: 2 }))
      yield* Effect.yieldNow
      const third = yield* Effect.forkChild(Effect.flip(turnOf("a")(Effect.die("never begun"))))
      yield* Effect.yieldNow
      yield* TestClock.adjust("5 seconds")
      assert.isTrue(isDatabaseUnavailable(yield* Fiber.join(third)))

      const again = yield* Effect.forkChild(turnOf("a")(Effect.sleep("10 seconds")))
      yield* Effect.yieldNow
      yield* end
      yield* Fiber.join(first)
      yield* TestClock.adjust("10 seconds")
      yield* Fiber.join(again)
    })
  )

  it.effect("are given back by whoever is interrupted, at work or in line", () =>
    Effect.gen(function* () {
      const { turnOf } = yield* two
      const many = yield* Effect.forkChild(
        Effect.replicateEffect(turnOf("a")(Effect.never), 5, { concurrency: 5 })
      )
      yield* Effect.yieldNow
      yield* Fiber.interrupt(many)
      const done = yield* Effect.timeoutOption(turnOf("a")(Effect.void), "1 second")
      assert.isTrue(Option.isSome(done))
    })
  )
})
