import { assert, describe, it } from "@effect/vitest"
import { Result, type Schema } from "effect"
import fc from "fast-check"
import { compileSchema } from "../../../../src/domain/tasks/CompiledSchema.ts"
import { compilePattern, estimateSize } from "../../../../src/domain/tasks/CompiledSchema/LinearPattern.ts"
import { isMultipleOf } from "../../../../src/domain/tasks/CompiledSchema/isMultipleOf.ts"
import { prototypeNames, schemasAndValues } from "../../../support/jsonSchemaArbitraries.ts"
import { isValid, type SchemaObject } from "../../../support/jsonSchemaOracle.ts"

const accepts = (schema: Schema.Json, value: Schema.Json): boolean =>
  Result.getOrThrow(compileSchema(schema)).check(value).length === 0

const property = (schema: Schema.Json) => ({ type: "object", properties: { a: schema } })

describe("CompiledSchema judges as JSON Schema 2020-12 does", () => {
  it("every schema that is accepted gives the same result as an evaluator of the specification", () => {
    let judged = 0
    const { record, root } = schemasAndValues(prototypeNames)
    fc.assert(
      fc.property(root, fc.array(record, { minLength: 4, maxLength: 8 }), (rootSchema, values) => {
        // Ordinary objects: objects of the arbitraries have no prototype, which the oracle's comparison notices.
        const plain: SchemaObject = JSON.parse(JSON.stringify(rootSchema))
        const compiled = compileSchema(JSON.parse(JSON.stringify(rootSchema)))
        // A schema that the validator would misjudge is refused.
        fc.pre(Result.isSuccess(compiled))
        if (Result.isFailure(compiled)) return
        for (const one of values) {
          const copy: Schema.Json = JSON.parse(JSON.stringify(one))
          judged++
          assert.strictEqual(compiled.success.check(copy).length === 0, isValid(plain, copy))
        }
      }),
      { numRuns: 400 }
    )
    assert.isAbove(judged, 1_000)
  }, 120_000)

  it("a value that fits no branch is refused, whatever patternProperties stands beside the branches", () => {
    const answer = {
      type: "object",
      patternProperties: { "^x-": { type: "string" } },
      anyOf: [
        { properties: { kind: { const: "refund" } }, required: ["kind"] },
        { properties: { kind: { const: "ship" } }, required: ["kind"] }
      ]
    }
    assert.isFalse(accepts(answer, { kind: "none", "x-why": "a" }))
    assert.isTrue(accepts(answer, { kind: "ship", "x-why": "a" }))
    assert.isFalse(accepts(answer, { kind: "ship", "x-why": 1 }))
    assert.isFalse(accepts({ ...answer, unevaluatedProperties: false }, { kind: "none", "x-why": "a" }))
  })

  it("const and enum compare values that have a member toString", () => {
    for (const schema of [{ const: { a: 1 } }, { enum: [{ a: 1 }, [1]] }]) {
      assert.isFalse(accepts(property(schema), { a: { toString: 1 } }))
      assert.isTrue(accepts(property(schema), { a: { a: 1 } }))
    }
    const named = property({ const: { toString: 1, valueOf: [2] } })
    assert.isTrue(accepts(named, { a: { valueOf: [2], toString: 1 } }))
    assert.isFalse(accepts(named, { a: { valueOf: [2], toString: 2 } }))
  })

  it("every amount in cents is a multiple of 0.01, and none of a tenth of a cent is", () => {
    const cents = Array.from({ length: 99_999 }, (_, index) => index + 1)
    assert.deepStrictEqual(
      cents.filter((count) => !isMultipleOf(count / 100, 0.01)),
      []
    )
    assert.deepStrictEqual(
      cents.filter((count) => count % 10 !== 0 && isMultipleOf(count / 1000, 0.01)),
      []
    )
    const amount = property({ multipleOf: 0.01 })
    for (const accepted of [0, 0.07, 19.99, -20.01, 1e20, 1e300]) {
      assert.isTrue(accepts(amount, { a: accepted }), String(accepted))
    }
    for (const refused of [0.005, 19.991, 1e-7, 5e-324]) assert.isFalse(accepts(amount, { a: refused }))
    assert.isFalse(accepts(property({ multipleOf: 3 }), { a: 1e20 }))
    assert.isTrue(accepts(property({ multipleOf: 3 }), { a: 3e20 }))
    assert.isTrue(accepts(property({ multipleOf: 1e-308 }), { a: 1e308 }))
  })

  it("an empty array contains nothing, also after one that matched", () => {
    const tags = { contains: { const: "main" } }
    const lists: ReadonlyArray<readonly [Schema.Json, Schema.Json]> = [
      [{ items: tags }, [["main"], []]],
      [{ additionalProperties: tags }, { first: ["main"], second: [] }],
      [{ patternProperties: { "^": tags } }, { first: ["main"], second: [] }],
      [{ items: { contains: true, minContains: 2 } }, [[1, 2], [1]]]
    ]
    for (const [schema, refused] of lists) {
      assert.isFalse(accepts(property(schema), { a: refused }), JSON.stringify(schema))
    }
    assert.isTrue(accepts(property({ items: tags }), { a: [["main"], ["other", "main"]] }))
    const limited = property({ contains: { const: 1 }, maxContains: 2 })
    assert.isTrue(accepts(limited, { a: [1, 0, 1] }))
    assert.isFalse(accepts(limited, { a: [1, 1, 0, 1] }))
    assert.isTrue(accepts(property({ contains: false, minContains: 0 }), { a: [1] }))
  })

  it("below not and if, a short array and an empty object are checked by every keyword", () => {
    const lists: ReadonlyArray<readonly [Schema.Json, Schema.Json]> = [
      [{ prefixItems: [{ type: "string" }], contains: {} }, []],
      [{ prefixItems: [true, { const: 2 }], uniqueItems: true }, [{}, 2, 2]],
      [{ propertyNames: { maxLength: 3 }, required: ["a"] }, {}],
      [{ propertyNames: { maxLength: 3 }, dependentRequired: { a: ["b"] } }, { a: 1 }]
    ]
    for (const [schema, value] of lists) {
      const text = JSON.stringify(schema)
      assert.isFalse(accepts(property(schema), { a: value }), text)
      assert.isTrue(accepts(property({ not: schema }), { a: value }), text)
      assert.isFalse(accepts(property({ if: schema, else: false }), { a: value }), text)
    }
    const pair = property({ prefixItems: [true, { type: "string" }], unevaluatedItems: false })
    assert.isTrue(accepts(pair, { a: [1, "b"] }))
    assert.isTrue(accepts(pair, { a: [1] }))
    assert.isFalse(accepts(pair, { a: [1, 2] }))
    assert.isFalse(accepts(pair, { a: [1, "b", 3] }))
  })

  it("unevaluatedProperties: false refuses properties named like members of Object.prototype", () => {
    const closed: Schema.Json = {
      type: "object",
      anyOf: [{ properties: { a: true } }],
      unevaluatedProperties: false
    }
    assert.isTrue(accepts(closed, { a: "x" }))
    for (const member of ["constructor", "toString", "valueOf", "hasOwnProperty", "__proto__"]) {
      assert.isFalse(accepts(closed, JSON.parse(`{"a":"x","${member}":{"b":1}}`)), member)
    }
  })

  it("a check that throws refuses the value and reports the error", () => {
    const thrown: Array<unknown> = []
    const compiled = Result.getOrThrow(
      compileSchema(property({ uniqueItems: true }), {
        onDefect: (error, digest) => thrown.push([error, digest])
      })
    )
    // Request validation refuses lone surrogates, which have no canonical form.
    const [fault] = compiled.check({ a: [{ b: "\ud800" }] }, "#/answer")
    assert.strictEqual(fault?.pointer, "#/answer")
    assert.match(fault?.detail ?? "", /^could not be validated/)
    assert.lengthOf(thrown, 1)
  })
})

describe("LinearPattern matches as ECMAScript does", () => {
  const atom = fc.constantFrom(
    ...[
      "a",
      "\\s",
      "\\S",
      ".",
      "\\d",
      "\\w",
      "\\W",
      "\\b",
      "^",
      "$",
      "[^ab]",
      "[\\s]",
      "[^\\s]",
      "[\\S]",
      "[\\Sa]",
      "[\\s\\S]",
      "[[\\S\\s]"
    ],
    ...[
      "[\\s\\d]",
      "[\\b]",
      "[.]",
      "[^]",
      "[]",
      "[[]",
      "[a[^]",
      "[\\]a]",
      "(?:a|b)",
      "(?<n>b)",
      "\\p{L}",
      "[^\\P{Lu}]"
    ],
    ...["\\0", "\\cA", "\\u00e9", "\\u{1F600}", "\\.", "[:a:]", "(?i:A)", "\\v"]
  )
  const quantifier = fc.constantFrom("", "", "*", "+", "?", "{1,2}", "*?")
  const expression = fc
    .array(fc.tuple(atom, quantifier), { minLength: 1, maxLength: 4 })
    .map((parts) => parts.map(([one, times]) => (/^[\^$]$|^\\b$/.test(one) ? one : one + times)).join(""))
  const character = fc.constantFrom(
    ...[
      "a",
      "b",
      "A",
      " ",
      "\t",
      "\n",
      "\r",
      "\v",
      "\u00a0",
      "\u2028",
      "\u2029",
      "\u3000",
      "\ufeff",
      "\u1680"
    ],
    ...["\u200b", "\u0085", "é", "😀", "1", "_", ".", ":", "[", "]", "^", "\u0000", "\u0001", "\b"]
  )

  /** Not for a group name that is used twice. */
  const isPattern = (source: string): boolean => {
    try {
      return new RegExp(source, "u").source !== ""
    } catch {
      return false
    }
  }

  it("for every pattern and text", () => {
    fc.assert(
      fc.property(
        fc.tuple(expression, fc.boolean()),
        fc.array(fc.string({ unit: character, maxLength: 4 }), { minLength: 8, maxLength: 8 }),
        ([part, anchored], texts) => {
          const source = anchored ? `^${part}$` : part
          fc.pre(isPattern(source))
          const compiled = Result.getOrThrow(compilePattern(source))
          const expected = new RegExp(source, "u")
          for (const text of texts) {
            assert.strictEqual(compiled.test(text), expected.test(text), JSON.stringify([source, text]))
          }
        }
      ),
      { numRuns: 3_000 }
    )
  })

  it("the flag s lets . match line ends, and POSIX classes are those of RE2", () => {
    const matches = (source: string, text: string) => Result.getOrThrow(compilePattern(source)).test(text)
    assert.isTrue(matches("(?s)^a.b$", "a\u2028b"))
    assert.isTrue(matches("^[[:alpha:]\\s]+$", "ab\u00a0"))
    assert.isFalse(matches("^[[:alpha:]]+$", "a1"))
  })

  it("the estimated size is at least that of the program, and little more", () => {
    const nested = fc
      .array(fc.tuple(expression, fc.constantFrom("", "{3}", "{2,}", "{0,4}", "|", "+")), {
        minLength: 1,
        maxLength: 3
      })
      .map((parts) => parts.map(([one, times]) => `(?:${one})${times}`).join(""))
    fc.assert(
      fc.property(nested, fc.constantFrom("", "{2}", "{5,7}"), (part, times) => {
        const source = `(${part})${times}`
        const compiled = compilePattern(source)
        fc.pre(Result.isSuccess(compiled))
        const { size } = Result.getOrThrow(compiled)
        assert.isAtLeast(estimateSize(source), size, source)
      }),
      { numRuns: 3_000 }
    )
    for (const source of [
      "a{1000}",
      "(?:\\p{L}x|[0-9]y){500}",
      "((a{10}){10}){10}",
      "(?P<name>[a-z]){300}"
    ]) {
      const { size } = Result.getOrThrow(compilePattern(source))
      assert.isAtMost(estimateSize(source), 4 * size, source)
    }
  })

  it("a pattern whose program would be huge is refused without being compiled", () => {
    for (const source of [
      `(${"a?".repeat(400)}){1000}`,
      `(?:${"[a-z]{9}".repeat(100)}){100}`,
      String.raw`(\Q${"[".repeat(500)}\E){500}`,
      "((((a{1,9}){9}){9}){9}){9}"
    ]) {
      assert.match(Result.getOrThrow(Result.flip(compilePattern(source))), /too large/)
    }
  })

  it("a pattern whose classes take long to compile is refused without being compiled", () => {
    for (const members of [
      "\\S".repeat(490),
      "B-\u{1e943}".repeat(240),
      "^" + String.raw`\x42-\x{1E942}`.repeat(60),
      String.raw`\u0042-\u{10FFFF}`.repeat(50),
      String.raw`\102-\uFFFF`.repeat(80),
      "--\ud7ff" + "[:alpha:]--\ud7ff".repeat(60),
      String.raw`\pL--\uFFFF`.repeat(80),
      String.raw`\PL`.repeat(320),
      "B-\u{1e943}".repeat(40) + String.raw`B-\x{}`
    ]) {
      for (const pattern of [`(?i)[${members}]`, `(?s-m:(?mi:a[${members}`]) {
        const reason = Result.getOrThrow(Result.flip(compilePattern(pattern)))
        assert.match(reason, /character classes of the pattern are too large/, pattern)
      }
    }
    for (const pattern of [
      "(?i)[a-zà-ÿ]+",
      "(?i)" + "[^\\S\\n]+".repeat(3),
      "(?i)" + String.raw`[\s\S]*a[\S\s]*b`.repeat(40),
      `[${"\\S".repeat(490)}]`,
      String.raw`(?i)\Q[${"B-\u{1e943}".repeat(200)}`
    ]) {
      assert.isTrue(Result.isSuccess(compilePattern(pattern)), pattern)
    }
  })

  it("quoted characters of RE2 stand for themselves", () => {
    const matches = (source: string, text: string) => Result.getOrThrow(compilePattern(source)).test(text)
    assert.isTrue(matches(String.raw`^\Qa.b[\s]\E.$`, String.raw`a.b[\s]x`))
    assert.isFalse(matches(String.raw`^\Qa.b\E`, "axb"))
    assert.isTrue(matches(String.raw`\Qa.`, "a."))
  })
})
