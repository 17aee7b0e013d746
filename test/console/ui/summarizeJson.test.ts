import { assert, describe, it } from "@effect/vitest"
import { summarizeJson } from "../../../src/console/ui/summarizeJson.ts"

describe("a value in one line", () => {
  it("tells the first members of an object, each by its name", () => {
    assert.deepStrictEqual(
      summarizeJson({ ticket: "4711", amount: 25, items: [{ sku: "A-1" }], more: true }),
      ["ticket: 4711", "amount: 25", 'items: [{"sku":"A-1"}]']
    )
    assert.deepStrictEqual(summarizeJson({}), [])
  })

  it("is cut where it is long, whatever it is", () => {
    assert.deepStrictEqual(summarizeJson("W".repeat(500)), [`${"W".repeat(80)}…`])
    const [fact = ""] = summarizeJson({ ["k".repeat(500)]: null })
    assert.strictEqual(fact.length, 81)
  })
})
