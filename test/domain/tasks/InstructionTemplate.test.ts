import { assert, describe, it } from "@effect/vitest"
import { Result } from "effect"
import { renderInstructions, templateFault } from "../../../src/domain/tasks/InstructionTemplate.ts"

const input = {
  text: "it is {{input.secret}}",
  secret: "hidden",
  customer: { name: "Ada", tags: ["a", "b"], "first name": "A/B", "a/b": 1 },
  amount: 12.5,
  none: null
}

const render = (template: string) => Result.getOrThrow(renderInstructions(template, input))

describe("instructions with variables", () => {
  it("are filled in with the values of the input: texts as they are, other values as JSON, missing ones as nothing", () => {
    assert.strictEqual(render("For {{input.customer.name}}: {{ input.amount }}!"), "For Ada: 12.5!")
    assert.strictEqual(render("{{input/customer/first name}} {{input/customer/a~1b}}"), "A/B 1")
    assert.strictEqual(
      render("{{input.customer.tags}} {{input.customer.tags.1}} {{input.none}}"),
      '["a","b"] b null'
    )
    assert.strictEqual(
      render("[{{input.missing}}{{input.customer.missing.deep}}{{input.text.length}}]"),
      "[]"
    )
    assert.strictEqual(render("{{input}}"), JSON.stringify(input))
  })

  it("keep every other text in braces, and never read a value as a template", () => {
    assert.strictEqual(
      render("{{inputs.text}} {{ user }} {input.text} {{}}"),
      "{{inputs.text}} {{ user }} {input.text} {{}}"
    )
    assert.strictEqual(render("{{input.text}}"), "it is {{input.secret}}")
    assert.strictEqual(render("{{input.constructor}}{{input.__proto__}}{{input.customer.toString}}"), "")
    assert.strictEqual(Result.getOrThrow(renderInstructions("$1 {{input.a}}", { a: "$& $1" })), "$1 $& $1")
  })

  it("are refused if they grow too long", () => {
    const large = { text: "x".repeat(600_000) }
    assert.isTrue(Result.isSuccess(renderInstructions("{{input.text}}", large)))
    assert.isTrue(Result.isFailure(renderInstructions("{{input.text}}{{input.text}}", large)))
    assert.match(templateFault("{{input.text}}".repeat(101), {}) ?? "", /at most 100 variables/)
  })

  it("are refused if the input schema has no such field, and only then", () => {
    const closed = {
      type: "object",
      properties: {
        text: { type: "string" },
        customer: { $ref: "#/$defs/customer" },
        list: {
          type: "array",
          items: { type: "object", properties: { id: {} }, additionalProperties: false }
        },
        open: { type: "object", properties: { a: {} } },
        self: { $ref: "#" }
      },
      additionalProperties: false,
      $defs: {
        customer: { type: "object", properties: { name: { type: "string" } }, unevaluatedProperties: false }
      }
    }
    const known = ["text", "customer.name", "list", "list.0.id", "open.b.c", "self.self.customer.name"]
    for (const path of known) assert.isUndefined(templateFault(`{{input.${path}}}`, closed), path)
    const unknown = [
      "other",
      "text.length",
      "customer.mail",
      "list.id",
      "list.0.name",
      "self.other",
      "constructor"
    ]
    for (const path of unknown) {
      assert.strictEqual(
        templateFault(`Sort. {{input.${path}}}`, closed),
        `{{input.${path}}} is not in the input: the input schema has no such field`
      )
    }
    for (const open of [
      {},
      { type: "object" },
      { properties: { text: {} }, additionalProperties: { type: "string" } },
      { properties: {}, patternProperties: { "^x": {} }, additionalProperties: false },
      { properties: {}, allOf: [{ properties: { other: {} } }], unevaluatedProperties: false },
      { $ref: "https://example.com/schema" }
    ]) {
      assert.isUndefined(templateFault("{{input.other}}", open), JSON.stringify(open))
    }
    assert.match(templateFault("{{input.}}", {}) ?? "", /empty name/)
    assert.match(templateFault("{{input.a..b}}", {}) ?? "", /empty name/)
  })

  it("are judged in bounded time, however the parts of the input schema refer to each other", () => {
    const last = 31
    const definitions = Object.fromEntries(
      Array.from({ length: last + 1 }, (_, index) => [
        `D${index}`,
        {
          properties: { a: { $ref: "#/$defs/D0" } },
          ...(index === last ? {} : { $ref: `#/$defs/D${index + 1}` })
        }
      ])
    )
    const schema = { $ref: "#/$defs/D0", $defs: definitions }
    const began = performance.now()
    assert.isUndefined(templateFault(`{{input${".a".repeat(last + 2)}}}`, schema))
    assert.isBelow(performance.now() - began, 1_000)
  })

  it("are read in linear time, whatever they contain", () => {
    const hostile = `${"{{input.".repeat(12_000)}${"{{ ".repeat(1_000)}{{input.${" ".repeat(3_000)}`
    const before = performance.now()
    assert.isUndefined(templateFault(hostile, {}))
    assert.strictEqual(Result.getOrThrow(renderInstructions(hostile, input)), hostile)
    assert.isBelow(performance.now() - before, 5_000)
  })
})
