import { assert, describe, it } from "@effect/vitest"
import { Clock, Effect } from "effect"
import { TestClock } from "effect/testing"
import { makeWorkerProgress } from "../../../../src/server/delivery/Delivery/WorkerProgress.ts"

describe("WorkerProgress", () => {
  it.effect("a worker is stuck once its runs have failed or hung for longer than its limit", () =>
    Effect.gen(function* () {
      const progress = makeWorkerProgress(yield* Clock.Clock)
      let outcome: Effect.Effect<void, string> = Effect.void
      const { runOnce } = progress.track({ name: "reads", runOnce: Effect.suspend(() => outcome) }, 5_000)
      const stuckAfterSecond = Effect.andThen(
        TestClock.adjust("1 second"),
        Effect.sync(() => progress.isStuck())
      )
      yield* runOnce
      assert.isFalse(yield* stuckAfterSecond)

      outcome = Effect.fail("the database is unavailable")
      const whileFailing: Array<boolean> = []
      for (let run = 0; run < 6; run++) {
        yield* Effect.exit(runOnce)
        whileFailing.push(yield* stuckAfterSecond)
      }
      assert.deepStrictEqual(whileFailing, [false, false, false, false, false, true])
      outcome = Effect.void
      yield* runOnce
      assert.isFalse(progress.isStuck())

      outcome = Effect.never
      yield* Effect.forkChild(runOnce, { startImmediately: true })
      yield* TestClock.adjust("5 seconds")
      assert.isFalse(progress.isStuck())
      assert.isTrue(yield* stuckAfterSecond)
    })
  )
})
