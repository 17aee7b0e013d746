/** Random schemas of JSON Schema 2020-12, and values for them. */
import type { Schema } from "effect"
import fc from "fast-check"
import type { OracleSchema, SchemaObject } from "./jsonSchemaOracle.ts"

/** Names of members of `Object.prototype`. */
export const prototypeNames: ReadonlyArray<string> = ["toString", "constructor"]

/**
 * Returns schemas whose top level is an object, and values for them. The names in schemas and values collide; `names`
 * are among them.
 */
export const schemasAndValues = (names: ReadonlyArray<string>) => {
  const name = fc.constantFrom("a", "b", "x-n", "kind", "é/~", "", ...names)
  const pattern = fc.constantFrom("^x-", "^[a-c]$", "o", "n$", "^\\S*$", "^.$")
  const scalar: fc.Arbitrary<Schema.Json> = fc.constantFrom(
    ...[
      null,
      true,
      false,
      0,
      1,
      2,
      3,
      0.5,
      0.07,
      19.99,
      7,
      100,
      "",
      "a",
      "b",
      "foo",
      "a b",
      "\u00a0",
      "\u2028"
    ]
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
      group({
        properties: members,
        anyOf: list,
        $ref: fc.constant("#/$defs/a"),
        unevaluatedProperties: inner
      }),
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
  return { record, root }
}
