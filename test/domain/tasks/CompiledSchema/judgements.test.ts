import { assert, describe, it } from "@effect/vitest"
import { Result, type Schema } from "effect"
import fc from "fast-check"
import { compileSchema } from "../../../../src/domain/tasks/CompiledSchema.ts"
import { compilePattern } from "../../../../src/domain/tasks/CompiledSchema/LinearPattern.ts"
import { isMultipleOf } from "../../../../src/domain/tasks/CompiledSchema/isMultipleOf.ts"
import { isValid, type OracleSchema, type SchemaObject } from "../../../support/jsonSchemaOracle.ts"

const accepts = (schema: Schema.Json, value: Schema.Json): boolean =>
  Result.getOrThrow(compileSchema(schema)).check(value).length === 0

const property = (schema: Schema.Json) => ({ type: "object", properties: { a: schema } })

/** Names that collide in the schemas and values, some of them members of `Object.prototype`. */
const name = fc.constantFrom("a", "b", "x-n", "kind", "toString", "constructor", "é/~", "")
const pattern = fc.constantFrom("^x-", "^[a-c]$", "o", "n$", "^\\S*$", "^.$")
const scalar: fc.Arbitrary<Schema.Json> = fc.constantFrom(
  ...[null, true, false, 0, 1, 2, 3, 0.5, 0.07, 19.99, 7, 100, "", "a", "b", "foo", "a b", "\u00a0", "\u2028"]
)
const { value } = fc.letrec<{ value: Schema.Json }>((tie) => ({
  value: fc.oneof(
    { depthSize: "small", withCrossShrink: true },
    scalar,
    fc.array(tie("value"), { maxLength: 4 }),
    fc.dictionary(name, tie("value"), { maxKeys: 4 })
  )
}))
const record = fc.dictionary(name, value, { maxKeys: 4 })
const count = fc.integer({ min: 0, max: 3 })
const type = fc.constantFrom(
  ...(["null", "boolean", "object", "array", "number", "string", "integer"] as const)
)

/** Schemas. References point to `$defs` without references, so that none is a cycle. */
const { schema } = fc.letrec<{ schema: OracleSchema }>((tie) => {
  const inner = tie("schema")
  const list = fc.array(inner, { minLength: 1, maxLength: 3 })
  const members = fc.dictionary(name, inner, { maxKeys: 3 })
  const group = (shape: { readonly [K in keyof SchemaObject]: fc.Arbitrary<SchemaObject[K]> }) =>
    fc.record(shape, { requiredKeys: [] })
  const leaf: fc.Arbitrary<OracleSchema> = fc.oneof(
    { weight: 1, arbitrary: fc.boolean() },
    { weight: 3, arbitrary: group({ type }) },
    { weight: 2, arbitrary: group({ const: value }) },
    { weight: 2, arbitrary: group({ enum: fc.array(value, { minLength: 1, maxLength: 3 }) }) },
    { weight: 1, arbitrary: group({ multipleOf: fc.constantFrom(1, 2, 0.5, 0.01, 0.1, 0.3, 7) }) },
    { weight: 1, arbitrary: group({ maximum: count, exclusiveMinimum: count }) },
    { weight: 1, arbitrary: group({ maxLength: count, minLength: count, pattern }) },
    { weight: 1, arbitrary: group({ maxItems: count, minItems: count, uniqueItems: fc.boolean() }) },
    { weight: 1, arbitrary: group({ maxProperties: count, minProperties: count }) },
    { weight: 2, arbitrary: group({ required: fc.uniqueArray(name, { maxLength: 2 }) }) },
    {
      weight: 1,
      arbitrary: group({
        dependentRequired: fc.dictionary(name, fc.uniqueArray(name, { maxLength: 2 }), { maxKeys: 2 })
      })
    },
    { weight: 2, arbitrary: fc.constantFrom({ $ref: "#/$defs/a" }, { $ref: "#/$defs/b" }) }
  )
  const applicator: fc.Arbitrary<OracleSchema> = fc.oneof(
    group({ properties: members, patternProperties: fc.dictionary(pattern, inner, { maxKeys: 2 }) }),
    group({ properties: members, additionalProperties: inner, propertyNames: inner }),
    group({ prefixItems: list, items: inner, contains: inner, minContains: count, maxContains: count }),
    group({ items: group({ contains: inner }), additionalProperties: group({ contains: inner }) }),
    group({ allOf: list, anyOf: list, not: inner }),
    group({
      patternProperties: fc.dictionary(pattern, inner, { minKeys: 1, maxKeys: 2 }),
      anyOf: list,
      oneOf: list
    }),
    // oxlint-disable-next-line unicorn/no-thenable -- a keyword of JSON Schema; the arbitraries are not awaited
    group({ if: inner, then: inner, else: inner, dependentSchemas: members }),
    group({ properties: members, anyOf: list, $ref: fc.constant("#/$defs/a"), unevaluatedProperties: inner }),
    group({ prefixItems: list, unevaluatedItems: inner })
  )
  return { schema: fc.oneof({ depthSize: "small" }, leaf, applicator) }
})
const isSelfContained = (inner: OracleSchema) => !JSON.stringify(inner).includes('"$ref"')
const definition = schema.filter(isSelfContained)
const root = fc
  .tuple(schema, definition, definition)
  .filter(([inner]) => typeof inner === "object")
  .map(([inner, a, b]): SchemaObject => ({
    type: "object",
    properties: { a: inner },
    ...(typeof inner === "object" ? { anyOf: [inner, true] } : {}),
    patternProperties: { "^x-": inner },
    $defs: { a, b }
  }))

describe("CompiledSchema judges as JSON Schema 2020-12 does", () => {
  it("every schema that is accepted gives the same result as an evaluator of the specification", () => {
    let judged = 0
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
      { numRuns: 400, seed: 20_261_122 }
    )
    assert.isAbove(judged, 1_000)
  })

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
      "[\\Sa]"
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
      { numRuns: 3_000, seed: 20_261_122 }
    )
  })

  it("the flag s lets . match line ends, and POSIX classes are those of RE2", () => {
    const matches = (source: string, text: string) => Result.getOrThrow(compilePattern(source)).test(text)
    assert.isTrue(matches("(?s)^a.b$", "a\u2028b"))
    assert.isTrue(matches("^[[:alpha:]\\s]+$", "ab\u00a0"))
    assert.isFalse(matches("^[[:alpha:]]+$", "a1"))
  })
})
