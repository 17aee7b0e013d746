import { assert, describe, it } from "@effect/vitest"
import { Effect, JsonPointer, type Schema } from "effect"
import fc from "fast-check"
import {
  compareValues,
  type Comparison,
  MAX_DIFFERENCES,
  MAX_VALUES,
  MAX_VALUE_CHARACTERS
} from "../../../../src/console/ui/batch/compareValues.ts"
import { ApprovalId } from "../../../../src/domain/Ids.ts"
import { isJson } from "../../../../src/domain/json/JsonValue.ts"
import { isSameJson } from "../../../../src/domain/json/CanonicalJson.ts"

const ids: ReadonlyArray<string> = Array.from({ length: 6 }, () => Effect.runSync(ApprovalId.generate))

const compare = (...values: ReadonlyArray<Schema.Json | undefined>): Comparison =>
  compareValues(values.map((value, index) => ({ id: ids[index]!, value })))

/** The differences as text: each value with the numbers of its approvals and its mark. */
const differencesOf = ({ differences }: Comparison) =>
  differences.map(({ groups, pointer }) => [
    pointer,
    groups.map(({ ids: having, mark, value }) => [
      value === undefined ? "not given" : JSON.stringify(value),
      having.map((id) => ids.indexOf(id)).join(),
      ...(mark === undefined ? [] : [mark])
    ])
  ])

const firstValueOf = (comparison: Comparison) => differencesOf(comparison)[0]?.[1]?.[0]

/** The value at a path; undefined if there is none. */
const valueAt = (value: Schema.Json | undefined, pointer: string): Schema.Json | undefined =>
  pointer
    .split("/")
    .slice(1)
    .map(JsonPointer.unescapeToken)
    .reduce<Schema.Json | undefined>((at, name) => {
      if (Array.isArray(at)) return at[Number(name)]
      if (typeof at !== "object" || at === null) return undefined
      const found: unknown = Object.hasOwn(at, name) ? Reflect.get(at, name) : undefined
      return isJson(found) ? found : undefined
    }, value)

/** The pointers of all texts, numbers, literals, and empty arrays and objects. */
const leavesOf = (value: Schema.Json, pointer = ""): ReadonlyArray<string> => {
  if (typeof value !== "object" || value === null) return [pointer]
  const entries = Object.entries(value)
  return entries.length === 0
    ? [pointer]
    : entries.flatMap(([name, member]) => leavesOf(member, `${pointer}/${JsonPointer.escapeToken(name)}`))
}

const isWithin = (pointer: string, ancestor: string) =>
  pointer === ancestor || pointer.startsWith(`${ancestor}/`)

/** Values that are often equal, and often equal in parts. */
const json: fc.Arbitrary<Schema.Json> = fc.letrec<{ readonly value: Schema.Json }>((tie) => ({
  value: fc.oneof(
    { depthSize: "small", withCrossShrink: true },
    fc.constantFrom<Schema.Json>(null, true, 0, 1, 12, -12, "", "1", "a", "x".repeat(MAX_VALUE_CHARACTERS)),
    fc.array(tie("value"), { maxLength: 3 }),
    fc.dictionary(fc.constantFrom("a", "b", "a/b", "~", "0", "__proto__"), tie("value"), { maxKeys: 3 })
  )
})).value

describe("compareValues", () => {
  it("every value of every complete approval is listed exactly once, at its place and for its approval", () => {
    fc.assert(
      fc.property(
        fc.array(fc.option(json, { nil: undefined, freq: 8 }), { minLength: 1, maxLength: 6 }),
        (values) => {
          const { common, differences, incomplete } = compare(...values)
          for (const [index, value] of values.entries()) {
            const id = ids[index]!
            const listed = [
              ...common,
              ...differences.map(({ groups, pointer }) => {
                const having = groups.filter((group) => group.ids.includes(id))
                assert.strictEqual(having.length, 1, `${pointer} has each approval once`)
                return { pointer, value: having[0]!.value }
              })
            ]
            for (const { pointer, value: shown } of listed) {
              const actual = valueAt(value, pointer)
              assert.isTrue(
                shown === undefined || actual === undefined ? shown === actual : isSameJson(shown, actual),
                pointer
              )
            }
            if (value === undefined || incomplete.has(id)) continue
            for (const leaf of leavesOf(value)) {
              // An array that is empty here, and not elsewhere, has its items listed as not given.
              const isEmptyHere = listed.some(({ pointer }) => pointer !== leaf && isWithin(pointer, leaf))
              if (isEmptyHere) continue
              const places = listed.filter(({ pointer }) => isWithin(leaf, pointer))
              assert.strictEqual(places.length, 1, `${leaf} is listed once`)
            }
          }
          for (const { groups } of differences) {
            assert.isAtLeast(groups.length, 2)
            for (const [at, { value }] of groups.entries()) {
              for (const { value: other } of groups.slice(at + 1)) {
                assert.isFalse(value !== undefined && other !== undefined && isSameJson(value, other))
              }
            }
          }
        }
      ),
      { numRuns: 500 }
    )
  })

  it("equal values are listed once, also in another order of their members, and differences at their own place", () => {
    const comparison = compare(
      { currency: "EUR", order: { id: "4711", lines: [1, 2] }, to: { name: "Maria", city: "Ulm" } },
      { to: { city: "Ulm", name: "Maria" }, order: { id: "4712", lines: [1] }, currency: "EUR" }
    )
    assert.deepStrictEqual(comparison.common, [
      { pointer: "/currency", value: "EUR" },
      { pointer: "/order/lines/0", value: 1 },
      { pointer: "/to", value: { name: "Maria", city: "Ulm" } }
    ])
    assert.deepStrictEqual(differencesOf(comparison), [
      [
        "/order/id",
        [
          [`"4711"`, "0"],
          [`"4712"`, "1"]
        ]
      ],
      [
        "/order/lines/1",
        [
          ["2", "0"],
          ["not given", "1"]
        ]
      ]
    ])
    assert.deepStrictEqual([...comparison.incomplete], [])
  })

  it("no arguments, null and an empty object are three different values", () => {
    assert.deepStrictEqual(differencesOf(compare(undefined, null, {})), [
      [
        "",
        [
          ["not given", "0"],
          ["null", "1"],
          ["{}", "2"]
        ]
      ]
    ])
    assert.deepStrictEqual(compare(undefined, undefined).common, [{ pointer: "", value: undefined }])
    assert.deepStrictEqual(compareValues([]).common, [])
  })

  it("an array and an object with the same members differ", () => {
    assert.deepStrictEqual(differencesOf(compare({ a: ["x"] }, { a: { "0": "x" } })), [
      [
        "/a",
        [
          [`["x"]`, "0", "type"],
          [`{"0":"x"}`, "1", "type"]
        ]
      ]
    ])
  })

  it("a number ten times as large as the others is marked and comes first, also in quotes, and the others are not", () => {
    const amounts = compare({ amount: 12_900 }, { amount: 11_000 }, { amount: 129_000 }, { amount: 9_900 })
    assert.deepStrictEqual(firstValueOf(amounts), ["129000", "2", "magnitude"])
    assert.strictEqual(amounts.differences[0]?.groups.filter(({ mark }) => mark !== undefined).length, 1)
    assert.deepStrictEqual(firstValueOf(compare({ a: "12.90" }, { a: "11.00" }, { a: "1.00" })), [
      `"1.00"`,
      "2",
      "magnitude"
    ])
    // Below ten times, nothing is marked.
    assert.isTrue(
      compare({ a: 10 }, { a: 99 }).differences[0]?.groups.every(({ mark }) => mark === undefined)
    )
  })

  it("of two numbers that differ tenfold both are marked, as are zero and a number of another sign", () => {
    const marksOf = (...values: ReadonlyArray<Schema.Json>) =>
      compare(...values).differences[0]?.groups.map(({ mark, value }) => [value, mark])
    assert.deepStrictEqual(marksOf(10, 100), [
      [10, "magnitude"],
      [100, "magnitude"]
    ])
    assert.deepStrictEqual(marksOf(5, 6, 0)?.[0], [0, "magnitude"])
    assert.deepStrictEqual(marksOf(5, 6, -5)?.[0], [-5, "magnitude"])
  })

  it("a number in quotes among numbers is marked as another type, and differences with a mark come first", () => {
    const comparison = compare({ a: "x", b: 5 }, { a: "y", b: 6 }, { a: "z", b: "7" })
    assert.deepStrictEqual(
      comparison.differences.map(({ pointer }) => pointer),
      ["/b", "/a"]
    )
    assert.deepStrictEqual(firstValueOf(comparison), [`"7"`, "2", "type"])
  })

  it("approvals with a long differing value, or with more differences than are listed, are incomplete", () => {
    const long = compare({ text: "a".repeat(MAX_VALUE_CHARACTERS) }, { text: "b" })
    assert.deepStrictEqual([...long.incomplete], [ids[0]])
    // In common, a value of any length is shown.
    const text = "a".repeat(MAX_VALUE_CHARACTERS)
    assert.deepStrictEqual([...compare({ text }, { text }).incomplete], [])

    const wide = Object.fromEntries(
      Array.from({ length: MAX_DIFFERENCES + 1 }, (_, index) => [`n${index}`, 1])
    )
    const many = compare(wide, {}, { ...wide, n0: 2 })
    assert.lengthOf(many.differences, MAX_DIFFERENCES)
    assert.deepStrictEqual([...many.incomplete], [ids[0], ids[2]])
  })

  it("long arrays are compared as whole values, and short ones item by item", () => {
    const items = (first: number, length: number) => Array.from({ length }, (_, index) => first + index)
    assert.deepStrictEqual(
      compare({ rows: items(0, 21) }, { rows: items(1, 21) }).differences.map(({ pointer }) => pointer),
      ["/rows"]
    )
    assert.deepStrictEqual(
      compare({ rows: [1, 2, 3] }, { rows: [1, 5, 3] }).differences.map(({ pointer }) => pointer),
      ["/rows/1"]
    )
  })

  it("more values than a person reads are not listed, and their approvals are incomplete", () => {
    const approvals = Array.from({ length: 100 }, (_, number) => ({
      id: Effect.runSync(ApprovalId.generate),
      value: Object.fromEntries(
        Array.from({ length: 12 }, (_, member) => [`n${member}`, `${number} ${member}`])
      )
    }))
    const { differences, incomplete } = compareValues(approvals)
    assert.strictEqual(
      differences.reduce((sum, { groups }) => sum + groups.length, 0),
      MAX_VALUES
    )
    assert.strictEqual(incomplete.size, 100)
    assert.strictEqual(compareValues(approvals.slice(0, 80)).incomplete.size, 0)
  })

  it("very wide and very deep arguments are compared as whole values, and are incomplete", () => {
    const wide = (seed: number) =>
      Object.fromEntries(Array.from({ length: 2_001 }, (_, index) => [`n${index}`, seed]))
    assert.deepStrictEqual(
      compare(wide(1), wide(2)).differences.map(({ pointer }) => pointer),
      [""]
    )
    assert.strictEqual(compare(wide(1), wide(2)).incomplete.size, 2)
    const deep = (text: string): Schema.Json => ({ a: { a: { a: { a: { a: { a: { a: text } } } } } } })
    assert.deepStrictEqual(differencesOf(compare(deep("x"), deep("y"))), [
      [
        "/a/a/a/a/a/a",
        [
          [`{"a":"x"}`, "0"],
          [`{"a":"y"}`, "1"]
        ]
      ]
    ])
  })
})
