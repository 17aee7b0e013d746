import { assert, describe, it } from "@effect/vitest"
import type { JsonSchema } from "../../../../src/domain/tasks/Task.ts"
import { isStrictSchema } from "../../../../src/server/tasks/Providers/strictSchema.ts"

const strict = {
  type: "object",
  properties: {
    oneOf: { type: "string", pattern: "^a" },
    items: { type: "array", items: { $ref: "#/$defs/item" }, minItems: 1 },
    either: { anyOf: [{ type: "null" }, { type: "number", minimum: 0 }] }
  },
  required: ["oneOf", "items", "either"],
  additionalProperties: false,
  $defs: { item: { enum: ["a", "b"], description: "An item" } }
} satisfies JsonSchema

describe("isStrictSchema", () => {
  it("a schema in OpenAI's subset is strict, whatever its properties are called", () => {
    assert.isTrue(isStrictSchema(strict))
  })

  it("optional or other properties, other keywords and another root are not", () => {
    const others: ReadonlyArray<JsonSchema> = [
      { ...strict, required: ["oneOf"] },
      { ...strict, additionalProperties: true },
      { ...strict, allOf: [] },
      { ...strict, anyOf: [strict] },
      { ...strict, $defs: { item: { oneOf: [] } } },
      { ...strict, $defs: { item: { type: "string", default: "a" } } },
      { ...strict, $defs: { item: { type: "object" } } },
      { ...strict, $defs: { item: { type: "array", items: false } } },
      { $ref: "#/$defs/item", $defs: strict.$defs },
      Array.from({ length: 12 }).reduce<JsonSchema>(
        (inner) => ({
          type: "object",
          properties: { inner },
          required: ["inner"],
          additionalProperties: false
        }),
        strict
      )
    ]
    for (const schema of others) assert.isFalse(isStrictSchema(schema), JSON.stringify(schema))
  })
})
