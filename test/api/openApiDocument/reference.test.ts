import { assert, describe, it } from "@effect/vitest"
import { openApiDocument } from "../../../src/api/openApiDocument.ts"
import { validatorOf } from "./validation.ts"

/** A node of the document. */
type Node = Readonly<Record<string, unknown>>

const isNode = (value: unknown): value is Node =>
  typeof value === "object" && value !== null && !Array.isArray(value)
const node = (value: unknown): Node => (isNode(value) ? value : {})
const nodes = (value: unknown): ReadonlyArray<Node> => (Array.isArray(value) ? value.map(node) : [])

const document = node(openApiDocument())
const components = node(document["components"])

const resolve = (part: Node): Node => {
  const reference = part["$ref"]
  if (typeof reference !== "string") return part
  return reference
    .slice(2)
    .split("/")
    .reduce((at: Node, key) => node(at[key]), document)
}

/** Every operation, webhooks included. */
const operations = [document["paths"], document["webhooks"]].flatMap((items) =>
  Object.values(node(items)).flatMap((item) => Object.values(node(item)).map(node))
)

/** Whether a part has a sentence of its own: ending with a period, a list or a code span, and longer than a placeholder. */
const isDescribed = ({ description }: Node): boolean =>
  typeof description === "string" &&
  /^\S.{5,}[.`]$/s.test(description) &&
  !/undefined|null\./.test(description.slice(0, 9))

/** Every property below a schema, with its path. */
const propertiesOf = (schema: Node, path: string): ReadonlyArray<readonly [path: string, property: Node]> => [
  ...Object.entries(node(schema["properties"])).flatMap(
    ([name, property]): ReadonlyArray<readonly [string, Node]> => [
      [`${path}.${name}`, node(property)],
      ...propertiesOf(node(property), `${path}.${name}`)
    ]
  ),
  ...["anyOf", "oneOf", "allOf"].flatMap((keyword) =>
    nodes(schema[keyword]).flatMap((branch) => propertiesOf(branch, path))
  ),
  ...["items", "additionalProperties", "contentSchema"].flatMap((keyword) =>
    isNode(schema[keyword]) ? propertiesOf(schema[keyword], `${path}[]`) : []
  )
]

/** Every body of the document: its operation and direction, its media type, and its content. */
const bodies = operations.flatMap(
  (operation): ReadonlyArray<readonly [path: string, type: string, content: Node]> => {
    const id = String(operation["operationId"])
    const contents = (part: Node, path: string) =>
      Object.entries(node(part["content"])).map(([type, content]) => [path, type, node(content)] as const)
    return [
      ...contents(node(operation["requestBody"]), `${id} request`),
      ...Object.entries(node(operation["responses"])).flatMap(([status, response]) =>
        contents(resolve(node(response)), `${id} ${status}`)
      )
    ]
  }
)

const schemas = Object.entries(node(components["schemas"])).map(
  ([name, schema]) => [name, node(schema)] as const
)

const properties = [
  ...schemas.flatMap(([name, schema]) => propertiesOf(schema, name)),
  ...bodies.flatMap(([path, , content]) => propertiesOf(node(content["schema"]), path))
]

/** The paths of the parts without a description. */
const undescribed = (parts: ReadonlyArray<readonly [path: string, part: Node]>): ReadonlyArray<string> => [
  ...new Set(parts.flatMap(([path, part]) => (isDescribed(part) ? [] : [path])))
]

describe("The API reference", () => {
  it("every property is described", () => {
    assert.isAbove(properties.length, 700)
    assert.deepStrictEqual(undescribed(properties), [])
  })

  it("every schema is described", () => {
    assert.isAbove(schemas.length, 80)
    assert.deepStrictEqual(undescribed(schemas), [])
  })

  it("every parameter is described", () => {
    const parameters = operations.flatMap((operation) =>
      nodes(operation["parameters"]).map(
        (parameter) =>
          [`${String(operation["operationId"])} ${String(parameter["name"])}`, parameter] as const
      )
    )
    assert.isAbove(parameters.length, 100)
    assert.deepStrictEqual(undescribed(parameters), [])
  })

  it("every response and every response header is described", () => {
    const responses = operations.flatMap((operation) =>
      Object.entries(node(operation["responses"])).map(
        ([status, response]) =>
          [`${String(operation["operationId"])} ${status}`, resolve(node(response))] as const
      )
    )
    const headers = responses.flatMap(([path, response]) =>
      Object.entries(node(response["headers"])).map(
        ([name, header]) => [`${path} ${name}`, resolve(node(header))] as const
      )
    )
    assert.isAbove(headers.length, 300)
    assert.deepStrictEqual(undescribed([...responses, ...headers]), [])
  })

  it("every operation has a camelCase id, a summary without a period, and a description", () => {
    const described = operations.map((operation) => [String(operation["operationId"]), operation] as const)
    assert.strictEqual(new Set(described.map(([id]) => id)).size, operations.length)
    for (const [id, { summary }] of described) {
      assert.match(id, /^[a-z]+([A-Z][a-z]+)*$/)
      assert.match(String(summary), /^[A-Z].{5,}[^.]$/, id)
    }
    assert.deepStrictEqual(undescribed(described), [])
  })

  it("every tag and security scheme is described", () => {
    const tags = nodes(document["tags"]).map((tag) => [String(tag["name"]), tag] as const)
    const schemes = Object.entries(node(components["securitySchemes"])).map(
      ([name, one]) => [name, node(one)] as const
    )
    assert.deepStrictEqual(undescribed([...tags, ...schemes]), [])
  })

  it("a problem response names every code that it can have", () => {
    let codes = 0
    for (const [path, type, content] of bodies) {
      if (type !== "application/problem+json") continue
      const [id, status] = path.split(" ")
      const operation = operations.find(({ operationId }) => operationId === id)
      const response = resolve(node(node(operation?.["responses"])[String(status)]))
      const schema = node(content["schema"])
      for (const problem of [schema, ...nodes(schema["oneOf"])]
        .filter((part) => "$ref" in part)
        .map(resolve)) {
        const values = node(node(problem["properties"])["code"])["enum"]
        const code: unknown = Array.isArray(values) ? values[0] : undefined
        assert.include(String(response["description"]), `\`${String(code)}\`: `, path)
        codes++
      }
    }
    assert.isAbove(codes, 300)
  })

  it("every JSON body has an example, and every example is valid", () => {
    let validated = 0
    for (const [path, type, content] of bodies) {
      if (type === "text/event-stream") continue
      const examples = [
        ...("example" in content ? [content["example"]] : []),
        ...Object.values(node(content["examples"])).map((one) => node(one)["value"])
      ]
      assert.isNotEmpty(examples, `${path} ${type} has an example`)
      const isValid = validatorOf(content["schema"])
      for (const example of examples) {
        assert.notInclude(JSON.stringify(example), "undefined", `${path} ${type}`)
        assert.isTrue(isValid(example), `${path} ${type}: ${JSON.stringify(isValid.errors)}`)
        validated++
      }
      // The lines of JSON Lines have a schema of their own.
      const { contentSchema } = node(content["schema"])
      if (contentSchema === undefined) continue
      const lines = String(content["example"]).trimEnd().split("\n")
      const areValid = validatorOf(contentSchema)
      assert.isTrue(areValid(lines.map((line) => JSON.parse(line))), `${path} ${type}`)
    }
    assert.isAbove(validated, 300)
  })
})
