import { assert, describe, it } from "@effect/vitest"
import type { NewEvaluators } from "../../../src/domain/tasks/Evaluator.ts"
import { evaluatorFaults } from "../../../src/domain/tasks/evaluatorFaults.ts"
import type { JsonSchema } from "../../../src/domain/tasks/Task.ts"

const invoice: JsonSchema = {
  type: "object",
  properties: {
    total: { type: "number" },
    paid: { enum: [0, 1, "unknown"] },
    customer: { $ref: "#/$defs/customer" },
    lines: { type: "array", items: { $ref: "#/$defs/line" } },
    "a/b": { type: ["string", "null"] },
    labels: { type: "object", additionalProperties: { type: "string" } },
    free: {}
  },
  additionalProperties: false,
  $defs: {
    customer: {
      anyOf: [
        { type: "object", properties: { name: { type: "string" } } },
        { type: "object", properties: { id: { type: "integer" } } }
      ]
    },
    line: {
      type: "object",
      properties: { amount: { type: "integer" }, parts: { type: "array", items: { $ref: "#/$defs/line" } } }
    }
  }
}

const faultsOf = (evaluators: NewEvaluators, schema = invoice) =>
  evaluatorFaults(schema, evaluators, "#/evaluators").map(({ detail, pointer }) => `${pointer} ${detail}`)

describe("evaluatorFaults", () => {
  it("evaluators of values that the schema has are accepted, by references, combinations and items", () => {
    assert.deepStrictEqual(
      faultsOf({
        "/total": { kind: "number", weight: 2 },
        "/paid": { kind: "number" },
        "/customer/name": { kind: "text" },
        "/customer/id": { kind: "number" },
        "/lines": { kind: "unordered" },
        "/lines/*/parts/0/parts/*/amount": { kind: "number" },
        "/a~1b": { kind: "text" },
        "/labels/any": { kind: "text" },
        "/free": { kind: "unordered" },
        "/free/deep/*/er": { kind: "number" }
      }),
      []
    )
  })

  it("a value that the schema does not name is refused with the evaluator's pointer", () => {
    const names = "names no value of the answer schema"
    assert.deepStrictEqual(
      faultsOf({
        "/totl": { kind: "number" },
        "/customer/nme": { kind: "text" },
        "/lines/amount": { kind: "number" },
        "/lines/*/amount/*": { kind: "equal" }
      }),
      [
        `#/evaluators/~1totl ${names}`,
        `#/evaluators/~1customer~1nme ${names}`,
        `#/evaluators/~1lines~1amount ${names}`
      ]
    )
  })

  it("an evaluator of another type than the value's, and a weight below the top level, are refused", () => {
    assert.deepStrictEqual(
      faultsOf({
        "/total": { kind: "text" },
        "/lines": { kind: "number" },
        "/lines/*/amount": { kind: "unordered" },
        "/customer/name": { kind: "text", weight: 2 }
      }),
      [
        "#/evaluators/~1total/kind compares values of the type string, which this one never is",
        "#/evaluators/~1lines/kind compares values of the type number, which this one never is",
        "#/evaluators/~1lines~1*~1amount/kind compares values of the type array, which this one never is",
        "#/evaluators/~1customer~1name/weight is for top-level fields only"
      ]
    )
  })

  it("references that lead to themselves, or nowhere, end", () => {
    const odd: JsonSchema = {
      type: "object",
      $ref: "#",
      properties: { a: { $ref: "#/properties/a" }, b: { $ref: "#/nowhere" }, c: { $ref: "#anchor" } }
    }
    assert.deepStrictEqual(
      faultsOf({ "/a/x": { kind: "text" }, "/b": { kind: "text" }, "/c": { kind: "text" } }, odd),
      []
    )
  })
})
