import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Exit, Fiber, Queue, Scope } from "effect"
import { TestClock } from "effect/testing"
import { AGAIN_MILLIS, onShutdown, runForever, runWorkers } from "../../../src/server/concurrency/Worker.ts"

describe("a loop", () => {
  it.effect("tries again what fails or dies, a little later, and ends with its scope", () =>
    Effect.gen(function* () {
      const turns = yield* Queue.unbounded<number>()
      let count = 0
      const turn = Effect.suspend(() => {
        Queue.offerUnsafe(turns, ++count)
        if (count === 1) return Effect.fail("the store is away")
        if (count === 2) return Effect.die(new Error("a fault"))
        return Effect.never
      })
      const scope = yield* Scope.make()
      yield* runWorkers([runForever("Turning", turn)]).pipe(Scope.provide(scope))
      assert.strictEqual(yield* Queue.take(turns), 1)
      yield* TestClock.adjust(AGAIN_MILLIS - 1)
      assert.strictEqual(yield* Queue.size(turns), 0)
      yield* TestClock.adjust(1)
      assert.strictEqual(yield* Queue.take(turns), 2)
      yield* TestClock.adjust(AGAIN_MILLIS)
      assert.strictEqual(yield* Queue.take(turns), 3)
      yield* Scope.close(scope, Exit.void)
      yield* TestClock.adjust(10 * AGAIN_MILLIS)
      assert.strictEqual(yield* Queue.size(turns), 0)
    })
  )
})

describe("the last word of a service", () => {
  it.effect("is said to its end, though whoever closes the scope was interrupted", () =>
    Effect.gen(function* () {
      const begun = yield* Deferred.make<void>()
      const done = yield* Deferred.make<void>()
      const last = Deferred.succeed(begun, undefined).pipe(
        Effect.andThen(Effect.sleep("1 second")),
        Effect.andThen(Deferred.succeed(done, undefined)),
        Effect.asVoid
      )
      const user = yield* Effect.forkChild(Effect.scoped(Effect.andThen(onShutdown(last), Effect.never)), {
        startImmediately: true
      })
      const interrupting = yield* Effect.forkChild(Fiber.interrupt(user), { startImmediately: true })
      yield* Deferred.await(begun)
      yield* TestClock.adjust("1 second")
      yield* Fiber.join(interrupting)
      assert.isTrue(yield* Deferred.isDone(done))
    })
  )
})
