import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import * as fc from "fast-check"
import { RE2JS } from "re2js"
import { openApiDocument } from "../../../src/api/openApiDocument.ts"
import { isVisibleLine } from "../../../src/domain/VisibleText.ts"

/** A node of the document. */
type Node = Readonly<Record<string, unknown>>

const isNode = (value: unknown): value is Node =>
  typeof value === "object" && value !== null && !Array.isArray(value)
const node = (value: unknown): Node => (isNode(value) ? value : {})
const nodes = (value: unknown): ReadonlyArray<Node> => (Array.isArray(value) ? value.map(node) : [])

const document = node(openApiDocument())
const schemas = node(node(document["components"])["schemas"])

/** Every schema and other object of a part of the document, with its place. Examples are data, not schemas. */
const within = (value: unknown, at = "#"): ReadonlyArray<readonly [at: string, part: Node]> => {
  if (Array.isArray(value)) return value.flatMap((item, index) => within(item, `${at}/${index}`))
  if (!isNode(value)) return []
  const inner = Object.entries(value).filter(([key]) => key !== "example" && key !== "examples")
  return [[at, value], ...inner.flatMap(([key, item]) => within(item, `${at}/${key}`))]
}

const parts = within(document)

const placesOf = (isWrong: (part: Node, at: string) => boolean): ReadonlyArray<string> =>
  parts.flatMap(([at, part]) => (isWrong(part, at) ? [at] : []))

const isReference = ({ $ref }: Node): boolean => typeof $ref === "string"

describe("The schemas of the document", () => {
  it("have patterns that every regular expression engine knows", () => {
    const patterns = parts.flatMap(([, { pattern }]) => (typeof pattern === "string" ? [pattern] : []))
    assert.isAbove(patterns.length, 40)
    for (const pattern of patterns) {
      RE2JS.compile(pattern)
      // Engines differ in which digits and letters of Unicode these include.
      assert.notMatch(pattern, /\\[dwpP]/)
    }
  })

  it("have names for ids and times", () => {
    const inline = placesOf(
      ({ format, pattern }, at) =>
        !/^#\/components\/schemas\/\w+$/.test(at) &&
        (format === "date-time" || /^\^[a-z]{3}_\[/.test(String(pattern)))
    )
    assert.deepStrictEqual(inline, [])
    for (const name of ["ApprovalId", "SessionId", "StepId", "TaskId", "Timestamp", "TraceId"]) {
      assert.property(schemas, name)
    }
  })

  it("have integers with bounds, and no allOf", () => {
    assert.deepStrictEqual(
      placesOf(
        ({ maximum, minimum, type, ...part }) =>
          type === "integer" &&
          part["const"] === undefined &&
          part["enum"] === undefined &&
          !(typeof minimum === "number" && (maximum === undefined || typeof maximum === "number"))
      ),
      []
    )
    assert.deepStrictEqual(
      placesOf(({ allOf }) => allOf !== undefined),
      []
    )
  })

  it("tell the members of every union apart", () => {
    const unions = parts.filter(
      ([, { anyOf, oneOf }]) =>
        [...nodes(anyOf), ...nodes(oneOf)].every(({ type }) => type !== "null") &&
        nodes(anyOf ?? oneOf).length > 1
    )
    const told = unions.filter(([, { discriminator }]) => discriminator !== undefined)
    assert.isAbove(told.length, 25)
    for (const [at, { discriminator, oneOf }] of told) {
      const { mapping, propertyName } = node(discriminator)
      const targets = new Set(Object.values(node(mapping)))
      assert.sameMembers(
        [...targets],
        nodes(oneOf).map(({ $ref }) => $ref),
        at
      )
      assert.include(["code", "kind", "op", "type"], propertyName, at)
    }
    // Their members have different members of their own, or are of different types.
    assert.deepStrictEqual(
      unions.filter((union) => !told.includes(union)).map(([at]) => at),
      [
        "#/components/schemas/NewErasure",
        "#/components/schemas/MetadataSubject/properties/metadata_value",
        "#/components/schemas/NewRelease",
        "#/components/schemas/PreferencePair"
      ]
    )
  })

  it("have no type that generators of code lack", () => {
    // A type with the single value null.
    assert.deepStrictEqual(
      placesOf(({ type }, at) => type === "null" && !/\/(anyOf|oneOf)\/\d+$/.test(at)),
      []
    )
    // A nullable enum is a reference or null: otherwise each place gets an enum of its own.
    assert.deepStrictEqual(
      placesOf(({ enum: values, type }) => Array.isArray(type) && values !== undefined),
      []
    )
    // Without a format, some generators read a number with single precision.
    assert.deepStrictEqual(
      placesOf(
        ({ format, type, ...part }) =>
          (type === "number" || (Array.isArray(type) && type.includes("number"))) &&
          part["enum"] === undefined &&
          format !== "double"
      ),
      []
    )
  })

  it("name the bodies of webhooks, one schema for all", () => {
    const bodies = Object.values(node(document["webhooks"])).map(
      (item) =>
        node(node(node(node(node(item)["post"])["requestBody"])["content"])["application/json"])["schema"]
    )
    assert.isAtLeast(bodies.length, 9)
    assert.deepStrictEqual(
      [...new Set(bodies.map((body) => node(body)["$ref"]))],
      ["#/components/schemas/WebhookEvent"]
    )
  })

  it("require the members that every problem has", () => {
    // A problem has a code of its own. A part of a response that describes one, of several, has a list of codes.
    const problems = Object.entries(schemas).filter(([, schema]) => {
      const codes: unknown = node(node(node(schema)["properties"])["code"])["enum"]
      return Array.isArray(codes) && codes.length === 1
    })
    assert.isAbove(problems.length, 40)
    for (const [name, schema] of problems) {
      const required: unknown = node(schema)["required"]
      assert.includeMembers(
        Array.isArray(required) ? required : [],
        ["type", "title", "status", "detail", "code", "request_id"],
        name
      )
    }
  })

  it("describe a stream and JSON Lines as texts", () => {
    const texts = parts.flatMap(([, part]) => {
      const media = part["text/event-stream"] ?? part["application/x-ndjson"]
      return media === undefined ? [] : [node(node(media)["schema"])["type"]]
    })
    assert.deepStrictEqual(
      texts,
      Array.from({ length: 6 }, () => "string")
    )
  })

  it("refer to components that exist", () => {
    assert.deepStrictEqual(
      parts.flatMap(([, part]) => {
        const name = isReference(part)
          ? /^#\/components\/schemas\/(.*)$/.exec(String(part["$ref"]))?.[1]
          : undefined
        return name === undefined || name in schemas ? [] : [name]
      }),
      []
    )
  })

  it("have a pattern for names that excludes none that the service accepts", () => {
    const [pattern = ""] = parts.flatMap(([, { pattern }]) =>
      typeof pattern === "string" && pattern.includes(String.raw`\x00`) ? [pattern] : []
    )
    const published = new RegExp(pattern, "u")
    const accepts = Schema.is(Schema.String.check(isVisibleLine))
    let accepted = 0
    fc.assert(
      fc.property(fc.string({ unit: "binary", minLength: 1, maxLength: 20 }), (name) => {
        if (!accepts(name)) return
        accepted++
        assert.match(name, published)
      }),
      { numRuns: 2_000 }
    )
    assert.isAbove(accepted, 200)
    for (const name of [" ", "a\nb", "", "\u0085"]) {
      assert.isFalse(accepts(name))
      assert.notMatch(name, published)
    }
  })
})
