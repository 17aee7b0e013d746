import { assert, describe, it } from "@effect/vitest"
import { inWords } from "../../../src/console/ui/inWords.ts"

describe("a value in one line", () => {
  it("tells the first members of an object, each by its name", () => {
    assert.deepStrictEqual(inWords({ ticket: "4711", amount: 25, items: [{ sku: "A-1" }], more: true }), [
      "ticket: 4711",
      "amount: 25",
      'items: [{"sku":"A-1"}]'
    ])
    assert.deepStrictEqual(inWords({}), [])
  })

  it("is cut where it is long, whatever it is", () => {
    assert.deepStrictEqual(inWords("W".repeat(500)), [`${"W".repeat(80)}…`])
    const [fact = ""] = inWords({ ["k".repeat(500)]: null })
    assert.strictEqual(fact.length, 81)
  })
})
