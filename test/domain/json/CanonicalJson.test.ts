import { assert, describe, it } from "@effect/vitest"
import { Result, type Schema } from "effect"
import * as fc from "fast-check"
import { canonicalJson, canonicalParts, NotCanonical } from "../../../src/domain/json/CanonicalJson.ts"
import { scan } from "../../../src/domain/json/StrictJson.ts"

const canonical = (value: Schema.Json) => Result.getOrThrow(canonicalJson(value))

/** The double with these 64 bits, as in RFC 8785, Appendix B. */
const double = (bits: string) => {
  const view = new DataView(new ArrayBuffer(8))
  view.setBigUint64(0, BigInt(`0x${bits}`))
  return view.getFloat64(0)
}

describe("canonicalJson", () => {
  it("writes the example of RFC 8785 (3.2.2 to 3.2.4)", () => {
    const input = String.raw`{
      "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
      "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
      "literals": [null, true, false]
    }`
    assert.strictEqual(
      canonical(JSON.parse(input)),
      String.raw`{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}`
    )
  })

  it("orders names by UTF-16 code units (3.2.3)", () => {
    const input = String.raw`{
      "\u20ac": "Euro Sign",
      "\r": "Carriage Return",
      "\ufb33": "Hebrew Letter Dalet With Dagesh",
      "1": "One",
      "\ud83d\ude00": "Emoji: Grinning Face",
      "\u0080": "Control",
      "\u00f6": "Latin Small Letter O With Diaeresis"
    }`
    const expected = [
      "Carriage Return",
      "One",
      "Control",
      "Latin Small Letter O With Diaeresis",
      "Euro Sign",
      "Emoji: Grinning Face",
      "Hebrew Letter Dalet With Dagesh"
    ]
    const text = canonical(JSON.parse(input))
    const places = expected.map((value) => text.indexOf(JSON.stringify(value)))
    assert.deepStrictEqual(
      places,
      places.toSorted((left, right) => left - right)
    )
    assert.isAbove(places[0]!, 0)
  })

  it("writes numbers as in RFC 8785, Appendix B", () => {
    const vectors: ReadonlyArray<readonly [bits: string, text: string]> = [
      ["0000000000000000", "0"],
      ["8000000000000000", "0"],
      ["0000000000000001", "5e-324"],
      ["8000000000000001", "-5e-324"],
      ["7fefffffffffffff", "1.7976931348623157e+308"],
      ["ffefffffffffffff", "-1.7976931348623157e+308"],
      ["4340000000000000", "9007199254740992"],
      ["c340000000000000", "-9007199254740992"],
      ["4430000000000000", "295147905179352830000"],
      ["44b52d02c7e14af5", "9.999999999999997e+22"],
      ["44b52d02c7e14af6", "1e+23"],
      ["44b52d02c7e14af7", "1.0000000000000001e+23"],
      ["444b1ae4d6e2ef4e", "999999999999999700000"],
      ["444b1ae4d6e2ef4f", "999999999999999900000"],
      ["444b1ae4d6e2ef50", "1e+21"],
      ["3eb0c6f7a0b5ed8c", "9.999999999999997e-7"],
      ["3eb0c6f7a0b5ed8d", "0.000001"],
      ["41b3de4355555553", "333333333.3333332"],
      ["41b3de4355555554", "333333333.33333325"],
      ["41b3de4355555555", "333333333.3333333"],
      ["41b3de4355555556", "333333333.3333334"],
      ["41b3de4355555557", "333333333.33333343"],
      ["becbf647612f3696", "-0.0000033333333333333333"],
      ["43143ff3c1cb0959", "1424953923781206.2"]
    ]
    for (const [bits, text] of vectors) assert.strictEqual(canonical(double(bits)), text, bits)
  })

  it("rejects values without a canonical form, without repeating the value", () => {
    for (const value of [
      Number.NaN,
      Number.POSITIVE_INFINITY,
      [Number.NEGATIVE_INFINITY],
      "\ud800secret",
      { "secret\udfff": 1 },
      { a: ["secret\ud83d"] }
    ]) {
      const refused = canonicalJson(value)
      assert.isTrue(Result.isFailure(refused) && refused.failure instanceof NotCanonical)
      if (Result.isFailure(refused)) assert.notInclude(refused.failure.message, "secret")
    }
  })

  const shuffled = (value: Schema.Json, seed: number): Schema.Json => {
    if (Array.isArray(value)) return value.map((item: Schema.Json) => shuffled(item, seed))
    if (typeof value !== "object" || value === null) return value
    const members = Object.entries(value).map(([name, member]) => [name, shuffled(member, seed)] as const)
    const turn = members.length === 0 ? 0 : seed % members.length
    return Object.fromEntries([...members.slice(turn), ...members.slice(0, turn)].toReversed())
  }

  it("is the same text for equal values, and parses back to the value", () => {
    fc.assert(
      fc.property(fc.jsonValue({ stringUnit: "grapheme" }), fc.nat(), (made, seed) => {
        const value: Schema.Json = JSON.parse(JSON.stringify(made))
        const text = canonical(value)
        assert.strictEqual(canonical(shuffled(value, seed)), text)
        assert.strictEqual(canonical(JSON.parse(text)), text)
        assert.deepStrictEqual(JSON.parse(text), value)
      }),
      { numRuns: 2_000 }
    )
  })

  it("succeeds for every text that passes StrictJson.scan", () => {
    const units = fc.constantFrom("a", "\\ud83d", "\\ude00", "\ud83d", "\\u0000", "\\n")
    fc.assert(
      fc.property(
        fc.string({ unit: units, maxLength: 4 }),
        fc.constantFrom("1", "1e400", "-0"),
        (name, number) => {
          const text = `{"${name}":[${number},"${name}"]}`
          if (Result.isSuccess(scan(text))) assert.isTrue(Result.isSuccess(canonicalJson(JSON.parse(text))))
        }
      ),
      { numRuns: 2_000 }
    )
  })

  it("handles any depth", () => {
    let value: Schema.Json = 1
    for (let level = 0; level < 100_000; level++) value = [value]
    assert.strictEqual(canonical(value).length, 200_001)
  })
})

describe("canonicalParts", () => {
  /** Names and texts that implementations of canonical JSON, or of objects, treat in different ways. */
  const text = fc.oneof(
    fc.constantFrom(
      "__proto__",
      "toJSON",
      "constructor",
      "length",
      "",
      "10",
      "9",
      "\ud83d\ude00",
      "\ufb33",
      '"\\\u0001'
    ),
    fc.string({ unit: "grapheme", maxLength: 3 })
  )
  const { value: anyValue } = fc.letrec<{ readonly value: unknown }>((tie) => ({
    value: fc.oneof(
      { depthSize: "medium", maxDepth: 5 },
      fc.oneof(
        text,
        fc.double({ noNaN: true, noDefaultInfinity: true }),
        fc.constantFrom(-0, null, true, false)
      ),
      fc.array(tie("value"), { maxLength: 6 }),
      fc.dictionary(text, tie("value"), { maxKeys: 6 }),
      // A wide object in a narrow one.
      fc.tuple(fc.integer({ min: 20, max: 40 }), tie("value")).map(([count, deep]) => ({
        x: 1,
        deep: {
          ...Object.fromEntries(Array.from({ length: count }, (_, index) => [`n${index}`, index])),
          deep
        }
      }))
    )
  }))
  // Parsed, so that `__proto__` is a name as any other. `JSON.stringify` would write -0 as 0.
  const writeMinusZero = (_: string, value: unknown) => (Object.is(value, -0) ? "-0" : value)
  const readMinusZero = (_: string, value: unknown) => (value === "-0" ? -0 : value)
  const parsedValue = anyValue.map((made): Schema.Json =>
    JSON.parse(JSON.stringify(made, writeMinusZero), readMinusZero)
  )

  it("joined, the parts of any value are its canonical text", () => {
    fc.assert(
      fc.property(parsedValue, fc.integer({ min: 1, max: 12 }), (value, size) => {
        assert.strictEqual([...canonicalParts(value, size)].join(""), canonical(value))
      }),
      { numRuns: 2_000 }
    )
  })

  it("a small value is one part, and a part of a large one ends with the step that reaches the limit", () => {
    const small = { b: [1, 2, { a: null }], a: "x" }
    assert.deepStrictEqual([...canonicalParts(small)], [canonical(small)])
    const records = Array.from({ length: 100 }, (_, id) => ({ id, name: `n${id}`, __proto__2: [id] }))
    const large = { z: records, a: records, "10": Object.fromEntries(records.map(({ id }) => [id, id])) }
    const parts = [...canonicalParts(large, 50)]
    assert.strictEqual(parts.join(""), canonical(large))
    assert.isAbove(parts.length, 30)
    // A value has at most 20 characters, with its name.
    for (const part of parts) assert.isAtMost(part.length, 50 * 20)
  })

  it("a part ends after 256 KiB of text, however few values that is", () => {
    const value = Array.from({ length: 10 }, () => "x".repeat(100 * 1_024))
    const parts = [...canonicalParts(value)]
    assert.strictEqual(parts.join(""), canonical(value))
    assert.lengthOf(parts, 4)
  })

  /** The value, and the number of its members and names that were read since. */
  const counted = <A extends object>(target: A) => {
    const reads = { count: 0 }
    const value = new Proxy(target, {
      get: (object, name, receiver): unknown => {
        reads.count++
        return Reflect.get(object, name, receiver)
      },
      ownKeys: (object) => {
        const names = Reflect.ownKeys(object)
        reads.count += names.length
        return names
      }
    })
    return { reads, value }
  }

  it("a wide object is read once, however deep it is nested", () => {
    const names = 10_000
    const wide = Object.fromEntries(Array.from({ length: names }, (_, index) => [`k${index}`, index]))
    for (const levels of [0, 60]) {
      const { reads, value } = counted(wide)
      let nested: Schema.Json = value
      for (let level = 0; level < levels; level++) nested = { x: 1, deep: nested }
      const parts = [...canonicalParts(nested)]
      // Each name in the list of names, and each member.
      assert.isAtMost(reads.count, 2 * names, `${levels} levels`)
      assert.strictEqual(parts.join(""), canonical(nested))
    }
  })

  it("handles any depth", () => {
    let value: Schema.Json = 1
    for (let level = 0; level < 100_000; level++) value = [value]
    const parts = [...canonicalParts(value)]
    assert.isAtLeast(parts.length, 20)
    assert.strictEqual(parts.join(""), canonical(value))
  })

  it("a value without a canonical form throws, wherever it is", () => {
    for (const fault of ["\ud800", "\udfff!", Number.NaN, Number.NEGATIVE_INFINITY]) {
      for (const item of [
        fault,
        [fault],
        { a: fault },
        ...(typeof fault === "string" ? [{ [fault]: 1 }] : [])
      ]) {
        const values = Array.from({ length: 20 }, (_, index) => [index, index === 15 ? item : "a"])
        assert.throws(() => [...canonicalParts({ values }, 3)], NotCanonical)
      }
    }
  })
})
