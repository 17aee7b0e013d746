import { assert, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import { compareAnswers } from "../../../src/domain/tasks/Agreement.ts"
import type { JsonObject } from "../../../src/domain/tasks/Dataset.ts"

const agrees = (expected: JsonObject, actual: JsonObject) => compareAnswers(expected, actual).agrees

describe("the agreement of two answers", () => {
  it("is that of JSON: whatever the order of keys, not of lists", () => {
    assert.isTrue(agrees({ a: 1, b: { c: [1, 2], d: null } }, { b: { d: null, c: [1, 2] }, a: 1 }))
    assert.isFalse(agrees({ a: [1, 2] }, { a: [2, 1] }))
    assert.isFalse(agrees({ a: [1] }, { a: [1, 1] }))
    assert.isFalse(agrees({ a: null }, {}))
    assert.isFalse(agrees({ a: {} }, { a: [] }))
    assert.isFalse(agrees({ a: "1" }, { a: 1 }))
    assert.isFalse(agrees({ a: { b: 1 } }, { a: { b: 1, c: 2 } }))
  })

  it("takes fractions within a millionth for the same, and near nothing for nothing", () => {
    assert.isTrue(agrees({ a: 0.1 + 0.2 }, { a: 0.3 }))
    assert.isTrue(agrees({ a: 1_000_000 }, { a: 1_000_000.9 }))
    assert.isFalse(agrees({ a: 1_000_000 }, { a: 1_000_001.5 }))
    assert.isTrue(agrees({ a: 0 }, { a: 1e-10 }))
    assert.isFalse(agrees({ a: 0 }, { a: 1e-6 }))
    assert.isFalse(agrees({ a: 1 }, { a: -1 }))
  })

  it("takes whole numbers for what they are, however large: they number invoices, seconds and cents", () => {
    assert.isTrue(agrees({ invoice: 12_345_678 }, { invoice: 12_345_678 }))
    assert.isFalse(agrees({ invoice: 12_345_678 }, { invoice: 12_345_670 }))
    assert.isFalse(agrees({ at: [1_763_000_000] }, { at: [1_763_001_700] }))
    assert.isFalse(agrees({ total: { cents: 1_000_001 } }, { total: { cents: 1_000_000 } }))
  })

  it("names each top-level field, one that only one has too", () => {
    assert.deepStrictEqual(compareAnswers({ a: 1, b: 2, constructor: 1 }, { a: 1, b: 3, c: 4 }).fields, [
      ["a", true],
      ["b", false],
      ["c", false],
      ["constructor", false]
    ])
  })

  it("is whole for what is the same, and the same both ways round", () => {
    const leaf = fc.oneof(
      fc.integer(),
      fc.double({ noNaN: true, noDefaultInfinity: true }),
      fc.string(),
      fc.constant(null)
    )
    const object = fc.dictionary(
      fc.string(),
      fc.oneof(leaf, fc.array(leaf), fc.dictionary(fc.string(), leaf))
    )
    fc.assert(fc.property(object, (value) => agrees(value, structuredClone(value))))
    fc.assert(fc.property(object, object, (left, right) => agrees(left, right) === agrees(right, left)))
  })
})
