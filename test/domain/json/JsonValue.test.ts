import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import * as fc from "fast-check"
import { isJson, JsonValue } from "../../../src/domain/json/JsonValue.ts"

const isSchemaJson = Schema.is(Schema.Json)

describe("JsonValue", () => {
  it("accepts and refuses what Schema.Json does", () => {
    const leaf = fc.oneof(
      { arbitrary: fc.jsonValue(), weight: 8 },
      fc.constantFrom<unknown>(
        undefined,
        Number.NaN,
        Number.POSITIVE_INFINITY,
        1n,
        Symbol.iterator,
        new Date(0),
        new Map()
      )
    )
    const { value } = fc.letrec((tie) => ({
      value: fc.oneof(
        { maxDepth: 4 },
        leaf,
        fc.array(tie("value"), { maxLength: 3 }),
        fc.dictionary(fc.string(), tie("value"), { maxKeys: 3, noNullPrototype: false })
      )
    }))
    const seen = { json: 0, other: 0 }
    fc.assert(
      fc.property(value, (candidate) => {
        const expected = isSchemaJson(candidate)
        seen[expected ? "json" : "other"]++
        assert.strictEqual(isJson(candidate), expected)
      }),
      { numRuns: 3_000 }
    )
    assert.isAbove(seen.json, 200)
    assert.isAbove(seen.other, 200)
  })

  it("refuses holes, classes and cycles, and accepts a value that occurs twice", () => {
    const cycle: Array<unknown> = []
    cycle.push(cycle, cycle)
    const twice = { a: 1 }
    assert.isFalse(isJson(Array(2)))
    assert.isFalse(isJson({ at: new Date(0) }))
    assert.isFalse(isJson(cycle))
    assert.isTrue(isJson([twice, twice]))
  })

  it("accepts a value of a million parts", () => {
    assert.isTrue(isJson(Array.from({ length: 1_000_000 }, () => 1)))
  })

  it("is documented like Schema.Json", () => {
    assert.deepStrictEqual(
      Schema.toJsonSchemaDocument(Schema.Struct({ value: JsonValue })),
      Schema.toJsonSchemaDocument(Schema.Struct({ value: Schema.Json }))
    )
  })
})
