import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber } from "effect"
import { TestClock } from "effect/testing"
import { OrgId } from "../../../src/domain/Ids.ts"
import { makeCountLimit } from "../../../src/server/admission/makeCountLimit.ts"

describe("makeCountLimit", () => {
  it.effect("an organization gets as many as its limit, however many requests arrive together", () =>
    Effect.gen(function* () {
      const org_id = yield* OrgId.generate
      const admit = makeCountLimit({ limit: 5, count: () => Effect.succeed(2) })
      const results = yield* Effect.replicateEffect(admit(org_id), 10, { concurrency: "unbounded" })
      assert.lengthOf(
        results.filter((ratio) => ratio !== undefined),
        3
      )
      assert.strictEqual(
        results.findLast((ratio) => ratio !== undefined),
        1
      )
      assert.isNumber(yield* admit(yield* OrgId.generate))
    })
  )

  it.effect("what is admitted while a count runs counts towards the limit after it", () =>
    Effect.gen(function* () {
      const org_id = yield* OrgId.generate
      let counted = Effect.succeed(0)
      const admit = makeCountLimit({ limit: 3, count: () => counted })
      assert.isNumber(yield* admit(org_id))
      // The next count sees that one alone.
      const result = yield* Deferred.make<number>()
      counted = Deferred.await(result)
      yield* TestClock.adjust("30 seconds")
      const counting = yield* Effect.forkChild(admit(org_id), { startImmediately: true })
      assert.isNumber(yield* admit(org_id))
      yield* Deferred.succeed(result, 1)
      assert.isNumber(yield* Fiber.join(counting))
      assert.isUndefined(yield* admit(org_id))
    })
  )

  it.effect(
    "at the limit the present ones are counted again after a second, and a failed count at once",
    () =>
      Effect.gen(function* () {
        const org_id = yield* OrgId.generate
        let count: Effect.Effect<number, string> = Effect.succeed(3)
        const admit = makeCountLimit({ limit: 3, count: () => count })
        assert.isUndefined(yield* admit(org_id))
        count = Effect.fail("database unavailable")
        yield* TestClock.adjust("999 millis")
        assert.isUndefined(yield* admit(org_id))
        yield* TestClock.adjust("1 millis")
        assert.strictEqual(yield* Effect.flip(admit(org_id)), "database unavailable")
        count = Effect.succeed(2)
        assert.strictEqual(yield* admit(org_id), 1)
      })
  )
})
