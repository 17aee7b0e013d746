import { assert, describe, it } from "@effect/vitest"
import { KeyedBudget } from "../../../src/server/admission/KeyedBudget.ts"

describe("KeyedBudget", () => {
  it("one key fills its share, all keys the whole, and what is given back fits again", () => {
    const budget = new KeyedBudget<string>({ total: 10, perKey: 6 })
    budget.take("a", 4)
    assert.deepStrictEqual([budget.fits("a", 2), budget.fits("a", 3)], [true, false])
    budget.take("b", 5)
    assert.deepStrictEqual(
      [budget.fits("a", 1), budget.fits("a", 2), budget.fits("c", 2)],
      [true, false, false]
    )
    assert.deepStrictEqual([budget.inUse, budget.inUseBy("a"), budget.inUseBy("c")], [9, 4, 0])
    budget.giveBack("b", 5)
    assert.deepStrictEqual([budget.fits("c", 6), budget.inUse, budget.inUseBy("b")], [true, 4, 0])
  })
})
