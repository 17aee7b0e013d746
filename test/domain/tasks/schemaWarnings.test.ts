import { assert, describe, it } from "@effect/vitest"
import type { Schema } from "effect"
import { schemaWarnings } from "../../../src/domain/tasks/schemaWarnings.ts"

const warned = (schema: Schema.Json) =>
  schemaWarnings(schema, "#/answer_schema").map(({ detail, pointer }) => `${pointer} ${detail}`)

describe("schemaWarnings", () => {
  it("keywords of other dialects, annotations that look like checks, and unknown ones are named at their place", () => {
    assert.deepStrictEqual(
      warned({
        type: "object",
        dependencies: { a: ["b"] },
        properties: {
          mail: { type: "string", format: "email", nullable: true },
          "a/b": { type: "array", prefixItems: [{ maxlength: 5 }], additionalItems: false },
          code: { contentEncoding: "base64", colour: "red" }
        },
        anyOf: [{ else: { required: ["a"] } }, { minContains: 2 }]
      }),
      [
        "#/answer_schema/dependencies has no effect in JSON Schema 2020-12; use dependentRequired or dependentSchemas",
        "#/answer_schema/properties/mail/format is not checked; use keywords such as pattern, minimum or enum to restrict the value",
        '#/answer_schema/properties/mail/nullable has no effect in JSON Schema; add "null" to type to allow null',
        "#/answer_schema/properties/a~1b/prefixItems/0/maxlength is not a keyword of JSON Schema 2020-12 and has no effect; did you mean maxLength?",
        "#/answer_schema/properties/a~1b/additionalItems has no effect in JSON Schema 2020-12; use prefixItems for the first items and items for the others",
        "#/answer_schema/properties/code/contentEncoding is not checked; use keywords such as pattern, minimum or enum to restrict the value",
        "#/answer_schema/properties/code/colour is not a keyword of JSON Schema 2020-12 and has no effect",
        "#/answer_schema/anyOf/0/else has no effect without if",
        "#/answer_schema/anyOf/1/minContains has no effect without contains"
      ]
    )
  })

  it("keywords that restrict values, descriptions and extensions have no warning", () => {
    assert.deepStrictEqual(
      warned({
        $schema: "https://json-schema.org/draft/2020-12/schema",
        $id: "https://example.com/order",
        title: "Order",
        "x-tool": { format: "email" },
        type: "object",
        default: { format: "email" },
        examples: [{ nullable: true }],
        properties: {
          format: { const: { format: "email" } },
          nullable: { enum: [{ nullable: true }], nullable: false },
          kind: { oneOf: [{ const: "a" }], discriminator: { propertyName: "kind" }, deprecated: true },
          list: { contains: { const: 1 }, maxContains: 2 }
        },
        if: { required: ["kind"] },
        else: { required: ["list"] }
      }),
      []
    )
  })

  it("at most 20 keywords are named", () => {
    const properties = Object.fromEntries(
      Array.from({ length: 30 }, (_, index) => [`p${index}`, { format: "date" }])
    )
    assert.lengthOf(schemaWarnings({ type: "object", properties }), 20)
  })
})
