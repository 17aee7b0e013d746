import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { TestClock } from "effect/testing"
import { repeatEvery, deleteInBatches } from "../../../src/server/concurrency/deleteInBatches.ts"

describe("a job in steps", () => {
  /** Removes ten rows at a time of those that there are. */
  const removing = (there: number) => {
    const left = { rows: there }
    const step = Effect.sync(() => {
      const found = Math.min(10, left.rows)
      left.rows -= found
      return found
    })
    return deleteInBatches(step, { rows: 10, steps: 3 })
  }

  it.effect("goes on until a step finds less than it may take", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* removing(0), { removed: 0, more: false })
      assert.deepStrictEqual(yield* removing(20), { removed: 20, more: false })
      assert.deepStrictEqual(yield* removing(25), { removed: 25, more: false })
    })
  )

  it.effect("ends after so many steps, however much there is, and says so", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* removing(1_000), { removed: 30, more: true })
    })
  )

  it.effect("goes on soon where a run left something, and else in its time, also after one that failed", () =>
    Effect.gen(function* () {
      let runs = 0
      const run = Effect.suspend(() => {
        runs++
        return runs === 4 ? Effect.fail("the store is away") : Effect.succeed({ more: runs < 3 })
      })
      yield* Effect.forkChild(repeatEvery("Rows", run, "10 minutes"))
      yield* TestClock.adjust("2 seconds")
      assert.strictEqual(runs, 3)
      yield* TestClock.adjust("9 minutes")
      assert.strictEqual(runs, 3)
      yield* TestClock.adjust("1 minute")
      assert.strictEqual(runs, 4)
      yield* TestClock.adjust("10 minutes")
      assert.strictEqual(runs, 5)
    })
  )
})
