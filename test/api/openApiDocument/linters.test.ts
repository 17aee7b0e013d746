import { assert, describe, it } from "@effect/vitest"
import { createConfig, lintFromString, type Plugin } from "@redocly/openapi-core"
import { openApiDocument } from "../../../src/api/openApiDocument.ts"

/** Checks that Redocly cannot be configured to make. */
const ownRules: Plugin = {
  id: "own",
  rules: {
    oas3: {
      // JSON Schema allows an array of anything; client generators do not.
      "array-items": () => ({
        Schema: (schema, context) => {
          if (schema.type === "array" && schema.items === undefined && !("prefixItems" in schema))
            context.report({ message: "An array needs `items`.", location: context.location.key() })
        }
      }),
      "example-value": () => ({
        Example: ({ externalValue, value }, context) => {
          if (value === undefined && externalValue === undefined)
            context.report({ message: "An example needs a value.", location: context.location.key() })
        }
      })
    }
  }
}

const isWithin = (type: string) => [{ subject: { type }, assertions: { defined: true } }]

/** Redocly's recommended rules and these: together they find whatever Spectral's recommended rules find in OpenAPI 3.1. */
const config = await createConfig({
  extends: ["recommended"],
  plugins: [ownRules],
  rules: {
    "info-contact": "error",
    "no-duplicated-enum-values": "error",
    "no-duplicated-tag-names": "error",
    "no-invalid-media-type-examples": "error",
    "no-invalid-parameter-examples": "error",
    "no-invalid-schema-examples": "error",
    "no-unsafe-markdown": "error",
    "operation-description": "error",
    "operation-operationId": "error",
    "operation-tag-defined": "error",
    "path-not-include-query": "error",
    "own/array-items": "error",
    "own/example-value": "error",
    "rule/info-description": {
      subject: { type: "Info", property: "description" },
      assertions: { defined: true }
    },
    "rule/contact-email": {
      subject: { type: "Contact", property: "email" },
      assertions: { pattern: "/^[^@ ]+@[^@ ]+$/" }
    },
    "rule/contact-url": {
      subject: { type: "Contact", property: "url" },
      assertions: { pattern: String.raw`/^https:\/\//` }
    },
    "rule/operation-tags": {
      subject: { type: "Operation", property: "tags" },
      assertions: { defined: true, minLength: 1 }
    },
    "rule/path-parameters-required": {
      subject: { type: "Parameter", property: "required" },
      where: [{ subject: { type: "Parameter", property: "in" }, assertions: { const: "path" } }],
      assertions: { defined: true, const: true }
    },
    // Documentation sites render titles and descriptions as HTML.
    "rule/no-script": {
      subject: { type: "any", property: ["title", "description"] },
      assertions: { notPattern: String.raw`/<script|eval\(/i` }
    },
    "rule/webhooks-are-received": {
      subject: { type: "Operation", property: ["servers", "callbacks"] },
      where: isWithin("WebhooksMap"),
      assertions: { defined: false }
    },
    "rule/callbacks-have-none": {
      subject: { type: "Operation", property: "callbacks" },
      where: isWithin("Callback"),
      assertions: { defined: false }
    }
  }
})

/** Gives a schema's default as an example too, because the rules validate examples only. */
const withDefaultAsExample = (_key: string, value: unknown): unknown =>
  typeof value === "object" && value !== null && "default" in value && "type" in value
    ? { ...value, examples: [value.default] }
    : value

/** The findings of the rules in a document: rule, message and place. */
const findingsIn = async (document: unknown) => {
  const source = JSON.stringify(document, withDefaultAsExample)
  const problems = await lintFromString({ source, absoluteRef: "/openapi.json", config })
  return problems.map(({ location, message, ruleId }) => [
    ruleId,
    message,
    location.map(({ pointer }) => pointer)
  ])
}

/** A valid document around a schema and an example of it. */
const documentOf = (schema: object, example: object = { value: [] }) => ({
  ...openApiDocument(),
  tags: [{ name: "Things", description: "Things." }],
  paths: {
    "/things": {
      get: {
        operationId: "things.list",
        tags: ["Things"],
        summary: "List things",
        description: "Lists things.",
        security: [],
        responses: {
          200: {
            description: "Things.",
            content: { "application/json": { schema, examples: { a: example } } }
          },
          400: { description: "A problem." }
        }
      }
    }
  },
  webhooks: {},
  components: {}
})

describe("The OpenAPI document", () => {
  it("follows the rules of the usual linters", { timeout: 120_000 }, async () => {
    assert.deepStrictEqual(await findingsIn(openApiDocument()), [])
  })

  it("would not pass with defects that Redocly alone overlooks", { timeout: 120_000 }, async () => {
    const rulesOf = async (schema: object, example?: object) =>
      (await findingsIn(documentOf(schema, example))).map(([rule]) => rule)
    const strings = { type: "array", items: { type: "string" } }
    assert.deepStrictEqual(await rulesOf(strings), [])
    assert.deepStrictEqual(await rulesOf({ type: "array" }), ["own/array-items"])
    assert.deepStrictEqual(await rulesOf(strings, { summary: "Nothing" }), ["own/example-value"])
    assert.deepStrictEqual(await rulesOf({ ...strings, default: [5] }), ["no-invalid-schema-examples"])
    assert.deepStrictEqual(await rulesOf({ ...strings, title: "<script>x</script>" }), ["rule/no-script"])
  })
})
