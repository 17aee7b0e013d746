import { assert, describe, it } from "@effect/vitest"
import { Result, Schema } from "effect"
import FastCheck from "fast-check"
import { JsonValue } from "../../../../src/domain/json/JsonValue.ts"
import { shapeOf } from "../../../../src/console/ui/schemaForm/shapeOf.ts"
import {
  emptyDraft,
  faultsAt,
  fromDraft,
  isValueDraft,
  toDraft
} from "../../../../src/console/ui/schemaForm/ValueDraft.ts"

const schema = {
  type: "object",
  required: ["category", "lines"],
  properties: {
    category: { enum: ["billing", "shipping", null] },
    note: { type: ["string", "null"], description: "For the agent." },
    total: { type: "number" },
    urgent: { type: "boolean" },
    customer: { $ref: "#/$defs/person" },
    lines: { type: "array", items: { type: "object", properties: { sku: { type: "string" } } } },
    anything: {}
  },
  $defs: {
    person: {
      type: "object",
      properties: {
        name: { type: "string" },
        parent: { anyOf: [{ $ref: "#/$defs/person" }, { type: "null" }] }
      }
    }
  }
} as const satisfies Schema.Json

const value = {
  category: "billing",
  note: null,
  total: 1.5,
  urgent: false,
  customer: { name: "Ada", parent: { name: "Byron", parent: null } },
  lines: [{ sku: "a" }, { sku: "b", extra: [1] }],
  anything: { deep: [null] }
}

const shapeAt = (...path: ReadonlyArray<string>) => {
  const property = (schema.properties as Record<string, Schema.Json>)[path[0] ?? ""] ?? null
  return shapeOf(schema, property)
}

const parse = Schema.decodeUnknownSync(Schema.fromJsonString(JsonValue))

/** Through its text, which has no -0. */
const generated = FastCheck.jsonValue().map((one) => parse(JSON.stringify(one)))

describe("ValueDraft", () => {
  it("fields follow the types of the schema", () => {
    assert.deepStrictEqual(shapeAt("note"), {
      shape: { kind: "text" },
      nullable: true,
      description: "For the agent."
    })
    assert.strictEqual(shapeAt("category").shape.kind, "choice")
    assert.strictEqual(shapeAt("total").shape.kind, "number")
    assert.deepStrictEqual(shapeAt("urgent").shape, { kind: "choice", options: [true, false] })
    assert.strictEqual(shapeAt("customer").shape.kind, "object")
    assert.strictEqual(shapeAt("lines").shape.kind, "array")
    assert.strictEqual(shapeAt("anything").shape.kind, "json")
    assert.strictEqual(shapeOf(schema, { type: "string", allOf: [{ minLength: 1 }] }).shape.kind, "json")
  })

  it("a value that is not edited stays the same", () => {
    const draft = toDraft(schema, schema, value)
    assert.deepStrictEqual(fromDraft(draft), Result.succeed(value))
    assert.isTrue(isValueDraft(JSON.parse(JSON.stringify(draft))))
  })

  it("any value stays the same under any schema, also one that it does not match", () => {
    FastCheck.assert(
      FastCheck.property(
        generated,
        FastCheck.constantFrom<Schema.Json>(
          schema,
          { type: "string" },
          { type: ["number", "null"] },
          { type: "array", items: { type: "integer" } },
          { type: "object", additionalProperties: { type: "string" } },
          { $ref: "#" },
          true
        ),
        (one, root) => {
          assert.deepStrictEqual(fromDraft(toDraft(root, root, one)), Result.succeed(one))
        }
      ),
      { numRuns: 300 }
    )
  })

  it("a recursive schema ends, and so does one of thousands of fields", () => {
    const list = { type: "object", properties: { next: { $ref: "#" } }, required: ["next"] }
    assert.strictEqual(emptyDraft(list, list).kind, "object")
    const many = { type: "array", items: { type: "number" } }
    assert.strictEqual(
      toDraft(
        many,
        many,
        Array.from({ length: 1_000 }, () => 1)
      ).kind,
      "json"
    )
    const circle = { $ref: "#" }
    assert.strictEqual(shapeOf(circle, circle).shape.kind, "json")
  })

  it("what is not a value yet is named with its place", () => {
    const draft = emptyDraft(schema, schema)
    const faults = Result.getOrThrow(Result.flip(fromDraft(draft, ["correction"])))
    assert.deepStrictEqual(faults, [{ pointer: "#/correction/category", detail: "Choose a value" }])
    const number = fromDraft({ kind: "number", text: "1,5" }, ["correction", "a b"])
    assert.strictEqual(Result.getOrThrow(Result.flip(number))[0]?.pointer, "#/correction/a%20b")
  })

  it("a fault is shown at its field, else at the field around its place", () => {
    const faults = [
      { pointer: "#/correction/total", detail: "at a field" },
      { pointer: "#/correction/missing", detail: "without a field" }
    ]
    const hasField = (name: string) => name === "total"
    assert.deepStrictEqual(
      faultsAt(faults, ["correction"], hasField).map(({ detail }) => detail),
      ["without a field"]
    )
    assert.deepStrictEqual(
      faultsAt(faults, ["correction", "total"], () => false).map(({ detail }) => detail),
      ["at a field"]
    )
  })
})
