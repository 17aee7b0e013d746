import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { deleteInBatches, toWorkerRun } from "../../../src/server/concurrency/deleteInBatches.ts"

describe("deleteInBatches", () => {
  /** Deletes ten of the remaining rows at a time, in three batches at most. */
  const deleting = (rows: number) => {
    const left = { rows }
    const deleteBatch = Effect.sync(() => {
      const found = Math.min(10, left.rows)
      left.rows -= found
      return found
    })
    return deleteInBatches(deleteBatch, { rows: 10, steps: 3 })
  }

  it.effect("a run ends when a batch finds fewer rows than its limit", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* deleting(0), { removed: 0, more: false })
      assert.deepStrictEqual(yield* deleting(20), { removed: 20, more: false })
      assert.deepStrictEqual(yield* deleting(25), { removed: 25, more: false })
    })
  )

  it.effect("a run ends after its limit of batches and reports that rows are left", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* deleting(1_000), { removed: 30, more: true })
    })
  )

  it("a worker runs again after a second if rows are left, else after its usual pause", () => {
    assert.deepStrictEqual(toWorkerRun({ removed: 30, more: true }), {
      counts: { removed: 30 },
      next: "1 second"
    })
    assert.deepStrictEqual(toWorkerRun({ removed: 5, more: false }), {
      counts: { removed: 5 },
      next: undefined
    })
  })
})
