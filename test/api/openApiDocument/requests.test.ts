import { assert, describe, it } from "@effect/vitest"
import { Context, Exit, Schema } from "effect"
import { type HttpApiEndpoint, OpenApi } from "effect/http-api"
import * as fc from "fast-check"
import { Api } from "../../../src/api/Api.ts"
import { openApiDocument } from "../../../src/api/openApiDocument.ts"
import { hasVisibleText, isVisibleLine } from "../../../src/domain/VisibleText.ts"
import { arbitraryOf, list, node } from "./arbitraryOf.ts"

const { components, paths } = openApiDocument()
const schemas = node(components.schemas)

const operations = Object.values(paths).flatMap((item) =>
  Object.values(item).filter((one): one is OpenApi.OpenAPISpecOperation => "responses" in one)
)

const endpoints = Object.values<{ readonly endpoints: Readonly<Record<string, HttpApiEndpoint.Top>> }>(
  Api.groups
).flatMap((group) => Object.values(group.endpoints))

const documented = endpoints.map((endpoint) => {
  const id = Context.getOrUndefined(endpoint.annotations, OpenApi.Identifier) ?? ""
  const operation = operations.find(({ operationId }) => operationId === id)
  return { id, endpoint, operation: node(operation) }
})

/** Names that hold characters for which no interoperable pattern exists. The description of each name says so. */
const isVisible = Schema.is(Schema.String.check(isVisibleLine))
const hasHiddenCharacters = (value: unknown): boolean =>
  typeof value === "string"
    ? value.trim() !== "" && (!hasVisibleText(value) || (!/\p{Cc}/u.test(value) && !isVisible(value)))
    : typeof value === "object" && value !== null && Object.values(value).some(hasHiddenCharacters)

/** Rules that a schema cannot say, such as those between members. The descriptions of the members do. */
const mayBreakRule: Readonly<Record<string, (body: unknown) => boolean>> = {
  runTask: (body) => "answered_by" in node(body) && !("answer" in node(body)),
  createRelease: (body) => node(body)["force"] === true && !("reason" in node(body)),
  startCanary: (body) => node(body)["force"] === true && !("reason" in node(body)),
  decideApproval: (body) => node(body)["decision"] === "request_changes",
  decideApprovals: (body) => node(body)["decision"] === "request_changes",
  createReviewer: (body) => "amount" in node(body),
  createApiKey: (body) => Array.isArray(node(body)["allowed_networks"]),
  createInvitation: (body) => Array.isArray(node(body)["allowed_networks"]),
  replayNotificationDeliveries: (body) => typeof node(body)["until"] === "string"
}

/** Schemas of the API need no services to be decoded. */
const decoderOf = (schema: Schema.Top | undefined) =>
  Schema.decodeUnknownExit(Schema.make<Schema.Codec<unknown>>((schema ?? Schema.Never).ast))

describe("A request that matches the document", () => {
  const withBody = documented.filter(({ operation }) => operation["requestBody"] !== undefined)

  it.each(withBody)("is decoded by the service: the body of $id", ({ endpoint, id, operation }) => {
    const content = node(node(node(operation["requestBody"])["content"])["application/json"])
    const [payload] = [...endpoint.payload.values()].flatMap(({ schemas: payloads }) => payloads)
    const decode = decoderOf(payload)
    fc.assert(
      fc.property(arbitraryOf(node(content["schema"]), schemas), (body) => {
        fc.pre(!hasHiddenCharacters(body) && mayBreakRule[id]?.(body) !== true)
        const decoded = decode(body)
        if (Exit.isFailure(decoded)) assert.fail(`${JSON.stringify(body)}: ${String(decoded.cause)}`)
      }),
      { numRuns: 50 }
    )
  })

  const withParameters = documented.filter(({ operation }) => list(operation["parameters"]).length > 0)

  it.each(withParameters)("is decoded by the service: the parameters of $id", ({ endpoint, operation }) => {
    const parameters = list(operation["parameters"]).map(node)
    // A cursor is opaque: only cursors of the service are valid. Metadata is JSON, as its description says.
    const generated = parameters.filter(({ name }) => name !== "cursor" && name !== "metadata")
    const places = { path: endpoint.params, query: endpoint.query, header: endpoint.headers }
    for (const [place, schema] of Object.entries(places)) {
      if (schema === undefined) continue
      const decode = decoderOf(schema)
      const here = generated.filter(({ in: where }) => where === place)
      const texts = fc.record(
        Object.fromEntries(
          here.map(({ name, schema: part }) => [String(name), arbitraryOf(node(part), schemas).map(String)])
        ),
        { requiredKeys: here.flatMap(({ name, required }) => (required === true ? [String(name)] : [])) }
      )
      fc.assert(
        fc.property(texts, (values) => {
          fc.pre(!hasHiddenCharacters(values))
          const decoded = decode(values)
          if (Exit.isFailure(decoded)) assert.fail(`${JSON.stringify(values)}: ${String(decoded.cause)}`)
        }),
        { numRuns: 50 }
      )
    }
  })
})
