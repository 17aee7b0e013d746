import { assert, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import { compareAnswers } from "../../../src/domain/tasks/Agreement.ts"
import type { JsonObject } from "../../../src/domain/tasks/Dataset.ts"
import {
  evaluatorTree,
  type NewEvaluators,
  withEvaluatorDefaults
} from "../../../src/domain/tasks/Evaluator.ts"

const agrees = (expected: JsonObject, actual: JsonObject) => compareAnswers(expected, actual).agrees

const treeOf = (evaluators: NewEvaluators) => evaluatorTree(withEvaluatorDefaults(evaluators))

const agreesBy = (evaluators: NewEvaluators, expected: JsonObject, actual: JsonObject) =>
  compareAnswers(expected, actual, treeOf(evaluators)).agrees

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

describe("compareAnswers › evaluators", () => {
  it("numbers agree within an absolute or a relative tolerance, integers too", () => {
    const absolute = { "/total": { kind: "number", absolute_tolerance: 2 } } as const
    assert.isTrue(agreesBy(absolute, { total: 10 }, { total: 12 }))
    assert.isFalse(agreesBy(absolute, { total: 10 }, { total: 13 }))
    const relative = { "/total": { kind: "number", relative_tolerance: 0.1 } } as const
    assert.isTrue(agreesBy(relative, { total: 90 }, { total: 100 }))
    assert.isFalse(agreesBy(relative, { total: 89 }, { total: 100 }))
    assert.isFalse(agreesBy({ "/total": { kind: "number" } }, { total: 1.000_000_1 }, { total: 1 }))
    assert.isFalse(agreesBy(absolute, { total: 10 }, { total: "10" }))
  })

  it("texts agree after normalization, as far as it is asked for", () => {
    const left = { name: "  Ａnna\nMüller. " }
    const right = { name: "anna  mu\u0308ller" }
    assert.isTrue(agreesBy({ "/name": { kind: "text", ignore_punctuation: true } }, left, right))
    assert.isFalse(agreesBy({ "/name": { kind: "text" } }, left, right))
    const strict = { "/name": { kind: "text", ignore_case: false, ignore_punctuation: true } } as const
    assert.isFalse(agreesBy(strict, left, right))
  })

  it("texts agree whatever their case, in any language", () => {
    const text = { "/t": { kind: "text" } } as const
    for (const [left, right] of [
      ["Straße", "STRASSE"],
      ["ΟΔΟΣ", "οδός".normalize("NFD").replaceAll("\u0301", "")],
      ["Ὀδυσσεύς", "ὈΔΥΣΣΕΎΣ"],
      ["ŞİFREMİ", "şifremi"],
      ["KAPI", "kapı"],
      ["ﬁnanz", "FINANZ"],
      ["Ǆ", "ǆ"],
      ["Pass\u00ADwort", "passwort"]
    ] as const) {
      assert.isTrue(agreesBy(text, { t: left }, { t: right }), left)
      assert.isFalse(
        agreesBy({ "/t": { kind: "text", ignore_case: false } }, { t: left }, { t: right }),
        left
      )
    }
    assert.isFalse(agreesBy(text, { t: "élève" }, { t: "eleve" }))
  })

  it("texts that are too long to normalize are compared for equality", () => {
    const text = { "/t": { kind: "text" }, "/z": { kind: "text" } } as const
    const long = "a ".repeat(32_768)
    assert.isTrue(agreesBy(text, { t: long.trim() }, { t: long.toUpperCase() }))
    assert.isFalse(agreesBy(text, { t: long }, { t: long.toUpperCase() + " " }))
    assert.isTrue(agreesBy(text, { t: long + "more" }, { t: long + "more" }))
    // The limit is of the whole comparison, and equal texts are free.
    const third = long.slice(0, 44_000)
    assert.isTrue(agreesBy(text, { t: third, z: "A" }, { t: third.toUpperCase(), z: "a" }))
    assert.isFalse(agreesBy(text, { t: third, z: third }, { t: third.toUpperCase(), z: third.toUpperCase() }))
    assert.isTrue(agreesBy(text, { t: long, z: third }, { t: long, z: third.toUpperCase() }))
    // U+FDFA becomes 18 characters.
    assert.isTrue(agreesBy(text, { t: "\uFDFA".repeat(3_000) }, { t: "\uFDFA".repeat(3_000) + " " }))
    assert.isFalse(agreesBy(text, { t: "\uFDFA".repeat(5_000) }, { t: "\uFDFA".repeat(5_000) + " " }))
  })

  it("texts with many combining characters in a row are compared for equality", () => {
    const text = { "/t": { kind: "text" } } as const
    const marked = (count: number) => `e${"\u0301\u0316".repeat(count / 2)}`
    assert.isTrue(agreesBy(text, { t: marked(30) }, { t: marked(30).toUpperCase() }))
    assert.isFalse(agreesBy(text, { t: marked(32) }, { t: marked(32).toUpperCase() }))
    const halfwidth = `${"\u0301".repeat(30)}\uFF9E`
    assert.isFalse(agreesBy(text, { t: `e${halfwidth}` }, { t: `E${halfwidth}` }))
  })

  it("an unordered array normalizes each of its texts once, and is compared for equality if that is too much", () => {
    const tags = { "/tags": { kind: "unordered" }, "/tags/*": { kind: "text" } } as const
    const items = (count: number, length: number) =>
      Array.from({ length: count }, (_, n) => `${n} `.padEnd(length, "a"))
    const upper = (items: ReadonlyArray<string>) => items.map((item) => item.toUpperCase()).toReversed()
    assert.isTrue(agreesBy(tags, { tags: items(50, 200) }, { tags: upper(items(50, 200)) }))
    assert.isFalse(agreesBy(tags, { tags: items(8, 10_000) }, { tags: upper(items(8, 10_000)) }))
    assert.isTrue(agreesBy(tags, { tags: items(8, 10_000) }, { tags: items(8, 10_000).toReversed() }))
  })

  it("the items of unordered arrays are matched by their own evaluators, each once", () => {
    const tags = { "/tags": { kind: "unordered" } } as const
    assert.isTrue(agreesBy(tags, { tags: ["a", "b", "b"] }, { tags: ["b", "a", "b"] }))
    assert.isFalse(agreesBy(tags, { tags: ["a", "b", "b"] }, { tags: ["a", "a", "b"] }))
    const lines = {
      "/lines": { kind: "unordered" },
      "/lines/*/amount": { kind: "number", absolute_tolerance: 1 },
      "/lines/*/note": { kind: "ignore" }
    } as const
    // The first line agrees with both others: only the matching in which it takes the other one is complete.
    assert.isTrue(
      agreesBy(
        lines,
        { lines: [{ amount: 1, note: "x" }, { amount: 0 }] },
        { lines: [{ amount: 1 }, { amount: 2 }] }
      )
    )
    assert.isFalse(
      agreesBy(lines, { lines: [{ amount: 1 }, { amount: 0 }] }, { lines: [{ amount: 2 }, { amount: 2 }] })
    )
  })

  it("ignored fields count nowhere, wherever they are and whether they are there", () => {
    const evaluators = { "/id": { kind: "ignore" }, "/meta/at": { kind: "ignore" } } as const
    const { agrees, fields, score } = compareAnswers(
      { id: 1, meta: { at: 1, by: "a" } },
      { meta: { by: "a" } },
      treeOf(evaluators)
    )
    assert.deepStrictEqual([agrees, fields, score], [true, [["meta", true]], 1])
  })

  it("the score is the share of the fields that agree, by their weights", () => {
    const { agrees, score } = compareAnswers(
      { category: "a", note: "x", total: 1 },
      { category: "a", note: "y", total: 1 },
      treeOf({ "/category": { kind: "equal", weight: 6 }, "/note": { kind: "text", weight: 3 } })
    )
    assert.deepStrictEqual([agrees, score], [false, 0.7])
    assert.strictEqual(compareAnswers({}, {}).score, 1)
  })

  it("a member name may contain any character, and a number in a pointer is an index or a name", () => {
    assert.isTrue(agreesBy({ "/a~1b~0": { kind: "text" } }, { "a/b~": "X" }, { "a/b~": "x" }))
    assert.isTrue(agreesBy({ "/list/1": { kind: "ignore" } }, { list: [1, 2] }, { list: [1, 3] }))
    assert.isTrue(agreesBy({ "/map/1": { kind: "ignore" } }, { map: { 1: 2 } }, { map: { 1: 3 } }))
  })

  it("nested unordered arrays take bounded work, and are then compared for equality", () => {
    const nested = (depth: number, size: number, leaf: number): JsonObject => ({
      items:
        depth === 0
          ? [leaf]
          : Array.from({ length: size }, (_, n) => nested(depth - 1, size, leaf + n / 1_000))
    })
    const evaluators = Object.fromEntries(
      [1, 2, 3, 4].map((depth) => ["/items" + "/*/items".repeat(depth - 1), { kind: "unordered" } as const])
    )
    const value = nested(3, 20, 0.5)
    assert.isTrue(agreesBy(evaluators, value, structuredClone(value)))
    assert.isFalse(agreesBy(evaluators, value, nested(3, 20, 0.6)))
    // Also arrays after it, in any order.
    const both = { ...evaluators, "/z": { kind: "unordered" } as const }
    assert.isTrue(agreesBy(both, { ...value, z: [1, 2] }, { ...structuredClone(value), z: [2, 1] }))
  })
})
