import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber } from "effect"
import { makeReadTracker } from "../../../../src/server/delivery/Delivery/ReadTracker.ts"

describe("ReadTracker", () => {
  it.effect("an attempt recorded during a read is stale for that read and for no later one", () =>
    Effect.gen(function* () {
      const reads = makeReadTracker()
      const [first, second] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
      const stale: Array<readonly [string, boolean, boolean]> = []
      const read = (name: string, until: Deferred.Deferred<void>) =>
        Effect.forkChild(
          reads.track(Deferred.await(until), () => {
            stale.push([name, reads.isStale(7, 0), reads.isStale(7, 1)])
          }),
          { startImmediately: true }
        )
      const early = yield* read("began before", first)
      reads.recorded(7, 0)
      const late = yield* read("began after", second)
      yield* Deferred.succeed(first, undefined)
      yield* Fiber.join(early)
      yield* Deferred.succeed(second, undefined)
      yield* Fiber.join(late)
      assert.deepStrictEqual(stale, [
        ["began before", true, false],
        ["began after", false, false]
      ])
    })
  )

  it.effect("nothing is remembered without a read in flight, nor after a read has failed", () =>
    Effect.gen(function* () {
      const reads = makeReadTracker()
      reads.recorded(1, 0)
      assert.isFalse(reads.isStale(1, 0))
      const gate = yield* Deferred.make<void, string>()
      const fiber = yield* Effect.forkChild(Effect.exit(reads.track(Deferred.await(gate), () => {})), {
        startImmediately: true
      })
      reads.recorded(1, 3)
      assert.isTrue(reads.isStale(1, 3))
      assert.isFalse(reads.isStale(1, 4))
      yield* Deferred.fail(gate, "the database is unavailable")
      yield* Fiber.join(fiber)
      assert.isFalse(reads.isStale(1, 3))
    })
  )

  it("an attempt stays stale until the last read that began before it has ended", () => {
    const reads = makeReadTracker()
    const endFirst = reads.begin()
    const endSecond = reads.begin()
    reads.recorded(7, 0)
    const endLater = reads.begin()
    endFirst()
    assert.isTrue(reads.isStale(7, 0))
    endSecond()
    assert.isFalse(reads.isStale(7, 0))
    endLater()
  })
})
