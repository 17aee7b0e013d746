import { assert, describe, it } from "@effect/vitest"
import { Result } from "effect"
import { sampleObject } from "../../../src/console/ui/firstRecord/sampleJson.ts"
import { compileSchema } from "../../../src/domain/tasks/CompiledSchema.ts"
import type { JsonSchema } from "../../../src/domain/tasks/Task.ts"

const schemas: Readonly<Record<string, JsonSchema>> = {
  "required members, and no others": {
    type: "object",
    properties: { text: { type: "string" }, note: { type: "string" } },
    required: ["text"],
    additionalProperties: false
  },
  "enumerations, constants and booleans": {
    type: "object",
    properties: { kind: { const: "a" }, size: { enum: ["small", "large"] }, urgent: { type: "boolean" } },
    required: ["kind", "size", "urgent"]
  },
  "bounds of numbers": {
    type: "object",
    properties: {
      share: { type: "number", minimum: 0, maximum: 1 },
      cents: { type: "integer", exclusiveMinimum: 99, multipleOf: 5 },
      level: { type: "integer", minimum: 3, maximum: 3 },
      below: { type: "number", exclusiveMaximum: -2 }
    },
    required: ["share", "cents", "level", "below"]
  },
  "lengths of texts": {
    type: "object",
    properties: { code: { type: "string", maxLength: 3 }, reason: { type: "string", minLength: 40 } },
    required: ["code", "reason"]
  },
  "lists and tuples": {
    type: "object",
    properties: {
      lines: {
        type: "array",
        minItems: 2,
        items: { type: "object", properties: { sku: { type: "string" } }, required: ["sku"] }
      },
      none: { type: "array", maxItems: 0 },
      pair: { type: "array", prefixItems: [{ type: "string" }, { type: "number" }], items: false }
    },
    required: ["lines", "none", "pair"]
  },
  "references, also recursive ones": {
    type: "object",
    properties: { tree: { $ref: "#/$defs/node" } },
    required: ["tree"],
    $defs: {
      node: {
        type: "object",
        properties: { name: { type: "string" }, child: { $ref: "#/$defs/node" } },
        required: ["name"]
      }
    }
  },
  "combined schemas": {
    type: "object",
    properties: {
      either: { oneOf: [{ type: "string" }, { type: "number" }] },
      both: {
        allOf: [
          { type: "object", properties: { a: { type: "string" } }, required: ["a"] },
          { type: "object", properties: { b: { type: "integer" } }, required: ["b"] }
        ]
      },
      nullable: { type: ["null", "string"] }
    },
    required: ["either", "both", "nullable"]
  },
  "names that a schema does not describe": { type: "object", required: ["constructor", "__proto__"] }
}

describe("A sample of a JSON Schema", () => {
  for (const [name, schema] of Object.entries(schemas)) {
    it(`fits ${name}`, () => {
      const { check } = Result.getOrThrow(compileSchema(schema))
      for (const variant of [0, 1] as const) {
        const sample = sampleObject(schema, variant)
        assert.deepStrictEqual(check(sample), [], JSON.stringify(sample))
      }
    })
  }

  it("has another value as its second variant", () => {
    const schema: JsonSchema = {
      type: "object",
      properties: { category: { enum: ["billing", "shipping"] } },
      required: ["category"]
    }
    assert.notDeepEqual(sampleObject(schema), sampleObject(schema, 1))
  })

  it("ends for a schema that nothing fits, and for hostile sizes", () => {
    const endless: JsonSchema = {
      type: "object",
      properties: {
        again: { $ref: "#" },
        text: { type: "string", minLength: 1e9 },
        list: { minItems: 1e9, type: "array", items: { $ref: "#" } }
      },
      required: ["again", "text", "list"]
    }
    assert.isBelow(JSON.stringify(sampleObject(endless)).length, 100_000)
    assert.deepStrictEqual(sampleObject({ type: "object", $ref: "#/a", a: { $ref: "#/a" } }), {})
  })
})
