import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber, Option } from "effect"
import { TestClock } from "effect/testing"
import { makeKeyedSemaphore } from "../../../src/server/admission/KeyedSemaphore.ts"

/** A semaphore with two permits per key, and an effect that ends once it is released. */
const setUp = Effect.gen(function* () {
  const end = yield* Deferred.make<void>()
  return {
    release: Deferred.succeed(end, undefined),
    untilReleased: Deferred.await(end),
    withPermit: makeKeyedSemaphore({ permits: 2, onTimeout: Effect.fail("timed out") })
  }
})

describe("KeyedSemaphore", () => {
  it.effect("a key whose permits are taken waits, while another key runs immediately", () =>
    Effect.gen(function* () {
      const { release, untilReleased, withPermit } = yield* setUp
      const both = yield* Effect.forkChild(
        Effect.replicateEffect(withPermit("a")(untilReleased), 2, { concurrency: 2 })
      )
      const third = yield* Effect.forkChild(withPermit("a")(Effect.succeed("after them")))
      yield* Effect.yieldNow
      assert.strictEqual(yield* withPermit("b")(Effect.succeed("immediately")), "immediately")
      assert.isUndefined(third.pollUnsafe())
      yield* release
      yield* Fiber.join(both)
      assert.strictEqual(yield* Fiber.join(third), "after them")
    })
  )

  it.effect("a waiter times out after five seconds, and an effect that has started does not", () =>
    Effect.gen(function* () {
      const { release, untilReleased, withPermit } = yield* setUp
      const both = yield* Effect.forkChild(
        Effect.replicateEffect(withPermit("a")(untilReleased), 2, { concurrency: 2 })
      )
      yield* Effect.yieldNow
      const third = yield* Effect.forkChild(Effect.flip(withPermit("a")(Effect.die("must not start"))))
      yield* Effect.yieldNow
      yield* TestClock.adjust("5 seconds")
      assert.strictEqual(yield* Fiber.join(third), "timed out")

      const long = yield* Effect.forkChild(withPermit("a")(Effect.sleep("10 seconds")))
      yield* Effect.yieldNow
      yield* release
      yield* Fiber.join(both)
      yield* TestClock.adjust("10 seconds")
      yield* Fiber.join(long)
    })
  )

  it.effect("an effect that takes several permits waits until all of them are free", () =>
    Effect.gen(function* () {
      const { release, untilReleased, withPermit } = yield* setUp
      const one = yield* Effect.forkChild(withPermit("a")(untilReleased))
      const both = yield* Effect.forkChild(withPermit("a", 2)(Effect.succeed("both")))
      yield* Effect.yieldNow
      assert.isUndefined(both.pollUnsafe())
      assert.strictEqual(yield* withPermit("b", 2)(Effect.succeed("another key")), "another key")
      yield* release
      yield* Fiber.join(one)
      assert.strictEqual(yield* Fiber.join(both), "both")
    })
  )

  it.effect("an effect that takes several permits is not overtaken by later ones that take fewer", () =>
    Effect.gen(function* () {
      const { release, untilReleased, withPermit } = yield* setUp
      const order: Array<string> = []
      const note = (name: string) => Effect.sync(() => void order.push(name))
      const one = yield* Effect.forkChild(withPermit("a")(untilReleased))
      yield* Effect.yieldNow
      const large = yield* Effect.forkChild(withPermit("a", 2)(note("large")))
      yield* Effect.yieldNow
      // One permit is free.
      const small = yield* Effect.forkChild(withPermit("a")(note("small")))
      yield* Effect.yieldNow
      assert.deepStrictEqual(order, [])
      yield* release
      yield* Fiber.joinAll([one, large, small])
      assert.deepStrictEqual(order, ["large", "small"])
    })
  )

  it.effect("a permit that becomes free is kept for the first waiter, also if it needs more", () =>
    Effect.gen(function* () {
      const { release, untilReleased, withPermit } = yield* setUp
      const order: Array<string> = []
      const note = (name: string) => Effect.sync(() => void order.push(name))
      const short = yield* Effect.forkChild(withPermit("a")(Effect.never))
      const long = yield* Effect.forkChild(withPermit("a")(untilReleased))
      yield* Effect.yieldNow
      const large = yield* Effect.forkChild(withPermit("a", 2)(note("large")))
      yield* Effect.yieldNow
      const small = yield* Effect.forkChild(withPermit("a")(note("small")))
      yield* Effect.yieldNow
      yield* Fiber.interrupt(short)
      yield* Effect.yieldNow
      assert.deepStrictEqual(order, [])
      yield* release
      yield* Fiber.joinAll([long, large, small])
      assert.deepStrictEqual(order, ["large", "small"])
    })
  )

  it.effect("a waiter that leaves, by its time-out or interruption, lets the ones behind it pass", () =>
    Effect.gen(function* () {
      const { withPermit } = yield* setUp
      yield* Effect.forkChild(withPermit("a")(Effect.never))
      yield* Effect.yieldNow
      const interrupted = yield* Effect.forkChild(withPermit("a", 2)(Effect.die("must not start")))
      yield* Effect.yieldNow
      const first = yield* Effect.forkChild(withPermit("a")(Effect.succeed("first")))
      yield* Effect.yieldNow
      yield* Fiber.interrupt(interrupted)
      assert.strictEqual(yield* Fiber.join(first), "first")

      const expired = yield* Effect.forkChild(Effect.flip(withPermit("a", 2)(Effect.die("must not start"))))
      yield* Effect.yieldNow
      yield* TestClock.adjust("4 seconds")
      const second = yield* Effect.forkChild(withPermit("a")(Effect.succeed("second")))
      yield* Effect.yieldNow
      assert.isUndefined(second.pollUnsafe())
      yield* TestClock.adjust("1 second")
      assert.strictEqual(yield* Fiber.join(expired), "timed out")
      assert.strictEqual(yield* Fiber.join(second), "second")
    })
  )

  it.effect("an effect that cannot be interrupted waits, and times out", () =>
    Effect.gen(function* () {
      const { release, untilReleased, withPermit } = yield* setUp
      const both = yield* Effect.forkChild(withPermit("a", 2)(untilReleased))
      yield* Effect.yieldNow
      const waiter = yield* Effect.forkChild(Effect.uninterruptible(withPermit("a")(Effect.succeed("done"))))
      yield* Effect.yieldNow
      yield* release
      yield* Fiber.join(both)
      assert.strictEqual(yield* Fiber.join(waiter), "done")

      yield* Effect.forkChild(withPermit("a", 2)(Effect.never))
      yield* Effect.yieldNow
      const expired = yield* Effect.forkChild(
        Effect.uninterruptible(Effect.flip(withPermit("a")(Effect.die("must not start"))))
      )
      yield* Effect.yieldNow
      yield* TestClock.adjust("5 seconds")
      assert.strictEqual(yield* Fiber.join(expired), "timed out")
    })
  )

  it.effect("interruption returns the permit, of a running effect and of a waiter", () =>
    Effect.gen(function* () {
      const { withPermit } = yield* setUp
      const crowd = yield* Effect.forkChild(
        Effect.replicateEffect(withPermit("a")(Effect.never), 5, { concurrency: 5 })
      )
      yield* Effect.yieldNow
      yield* Fiber.interrupt(crowd)
      const done = yield* Effect.timeoutOption(withPermit("a")(Effect.void), "1 second")
      assert.isTrue(Option.isSome(done))
    })
  )
})
