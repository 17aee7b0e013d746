import { assert, describe, it } from "@effect/vitest"
import { summarizeJson, summarizeJsonStart } from "../../../src/console/ui/summarizeJson.ts"

describe("summarizeJson", () => {
  it("an object is summarized by its first members with their names", () => {
    assert.deepStrictEqual(
      summarizeJson({ ticket: "4711", amount: 25, items: [{ sku: "A-1" }], more: true }),
      ["ticket: 4711", "amount: 25", 'items: [{"sku":"A-1"}]']
    )
    assert.deepStrictEqual(summarizeJson({}), [])
  })

  it("long values and names are truncated", () => {
    assert.deepStrictEqual(summarizeJson("W".repeat(500)), [`${"W".repeat(80)}…`])
    const [fact = ""] = summarizeJson({ ["k".repeat(500)]: null })
    assert.strictEqual(fact.length, 81)
  })

  it("the start of an object's text is summarized, wherever it ends", () => {
    assert.strictEqual(summarizeJsonStart('{"text":"where is it","n":1}'), "text: where is it · n: 1")
    assert.strictEqual(summarizeJsonStart('{"text":"where is'), "text: where is")
    assert.strictEqual(summarizeJsonStart('{"items":[1,2'), "items: [1,2")
    assert.strictEqual(summarizeJsonStart('{"te'), '{"te')
  })
})
