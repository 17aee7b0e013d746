import { assert, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import { compareAnswers } from "../../../src/domain/tasks/Agreement.ts"
import type { JsonObject } from "../../../src/domain/tasks/Dataset.ts"

const agrees = (expected: JsonObject, actual: JsonObject) => compareAnswers(expected, actual).agrees

describe("compareAnswers", () => {
  it("answers agree in any order of keys, but not in any order of list items", () => {
    assert.isTrue(agrees({ a: 1, b: { c: [1, 2], d: null } }, { b: { d: null, c: [1, 2] }, a: 1 }))
    assert.isFalse(agrees({ a: [1, 2] }, { a: [2, 1] }))
    assert.isFalse(agrees({ a: [1] }, { a: [1, 1] }))
    assert.isFalse(agrees({ a: null }, {}))
    assert.isFalse(agrees({ a: {} }, { a: [] }))
    assert.isFalse(agrees({ a: "1" }, { a: 1 }))
    assert.isFalse(agrees({ a: { b: 1 } }, { a: { b: 1, c: 2 } }))
  })

  it("fractions agree within a relative difference of 1e-6, and near zero within an absolute one", () => {
    assert.isTrue(agrees({ a: 0.1 + 0.2 }, { a: 0.3 }))
    assert.isTrue(agrees({ a: 1_000_000 }, { a: 1_000_000.9 }))
    assert.isFalse(agrees({ a: 1_000_000 }, { a: 1_000_001.5 }))
    assert.isTrue(agrees({ a: 0 }, { a: 1e-10 }))
    assert.isFalse(agrees({ a: 0 }, { a: 1e-6 }))
    assert.isFalse(agrees({ a: 1 }, { a: -1 }))
  })

  it("integers agree only if they are equal, however large", () => {
    assert.isTrue(agrees({ invoice: 12_345_678 }, { invoice: 12_345_678 }))
    assert.isFalse(agrees({ invoice: 12_345_678 }, { invoice: 12_345_670 }))
    assert.isFalse(agrees({ at: [1_763_000_000] }, { at: [1_763_001_700] }))
    assert.isFalse(agrees({ total: { cents: 1_000_001 } }, { total: { cents: 1_000_000 } }))
  })

  it("every top-level field of either answer is listed", () => {
    assert.deepStrictEqual(compareAnswers({ a: 1, b: 2, constructor: 1 }, { a: 1, b: 3, c: 4 }).fields, [
      ["a", true],
      ["b", false],
      ["c", false],
      ["constructor", false]
    ])
  })

  it("an answer agrees with itself, and agreement is symmetric", () => {
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
