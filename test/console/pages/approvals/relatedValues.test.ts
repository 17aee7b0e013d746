import { assert, describe, it } from "@effect/vitest"
import { findRelatedValues } from "../../../../src/console/pages/approvals/relatedValues.ts"

const search = { tool: "search.orders", values: [{ order: 4711 }, { order: 4711, total_cents: 12_900 }] }

describe("findRelatedValues", () => {
  it("an amount that is ten times an earlier result is found, and so is an equal number", () => {
    assert.deepStrictEqual(findRelatedValues({ order: 4711, amount_cents: 129_000 }, [search]), [
      {
        path: "order",
        value: 4711,
        factor: 1,
        tool: "search.orders",
        otherPath: "order",
        otherValue: 4711
      },
      {
        path: "amount_cents",
        value: 129_000,
        factor: 10,
        tool: "search.orders",
        otherPath: "total_cents",
        otherValue: 12_900
      }
    ])
  })

  it("a hundredth and numbers written as text are found, in nested arguments", () => {
    const found = findRelatedValues({ refund: { lines: [{ amount: "129.00" }] } }, [search])
    assert.deepStrictEqual(
      found.map(({ factor, path, value }) => [path, value, factor]),
      [["refund.lines.0.amount", 129, 0.01]]
    )
  })

  it("an equal number of any step explains an argument, and small or unrelated numbers are not reported", () => {
    const steps = [{ tool: "pay.quote", values: [{ total: 129_000 }] }, search]
    assert.deepStrictEqual(
      findRelatedValues({ amount: 129_000, count: 1, other: 777 }, steps).map(({ factor, tool }) => [
        tool,
        factor
      ]),
      [["pay.quote", 1]]
    )
    assert.deepStrictEqual(findRelatedValues({ count: 10 }, [{ tool: "x", values: [{ count: 1 }] }]), [])
    assert.deepStrictEqual(findRelatedValues(undefined, steps), [])
  })
})
