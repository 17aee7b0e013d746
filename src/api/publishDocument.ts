import type { HttpApiEndpoint, OpenApi } from "effect/http-api"
import { scopesOf } from "./Authorization.ts"
import { webhookDocs } from "./webhookDocs.ts"

/**
 * The OpenAPI 3.1 document as it is published. Problems are named by their code in Pascal case (`NotFound`), which is how generated clients
 * call them. Objects are left open: unknown keys of a body are ignored, and an answer may gain members. Headers that the frame writes are
 * added to those of the operation, and the scope that its gate asks for is named.
 */
export const publishDocument = (
  document: OpenApi.OpenAPISpec,
  endpointOf: (operationId: string) => HttpApiEndpoint.Top | undefined
): OpenApi.OpenAPISpec => {
  const names = new Map(Object.keys(document.components.schemas).map((name) => [name, readable(name)]))
  const renamed = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(renamed)
    if (typeof value !== "object" || value === null) return value
    return Object.fromEntries(
      Object.entries(value)
        .filter(([key, inner]) => key !== "additionalProperties" || inner !== false)
        .map(([key, inner]) => [
          key,
          key === "$ref" && typeof inner === "string" ? reference(inner, names) : renamed(inner)
        ])
    )
  }
  const schemas = Object.entries(document.components.schemas).map(([name, schema]) => [
    readable(name),
    renamed(schema)
  ])
  const components = { ...document.components, schemas: Object.fromEntries(schemas), headers }
  return {
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the walk keeps every value as it was, names apart
    ...(renamed({
      ...document,
      paths: published(document.paths, endpointOf),
      webhooks: webhookDocs
    }) as OpenApi.OpenAPISpec),
    components
  }
}

/** The headers of answers that the frame writes, whichever the operation. */
const headers = {
  RequestId: {
    description: "The id of the request, to be named when something about it is asked.",
    schema: { type: "string" }
  },
  Challenge: { description: "How to authenticate (RFC 9110).", schema: { type: "string" } },
  RetryAfter: {
    description: "Seconds after which the same request may be sent again.",
    schema: { type: "integer", minimum: 0 }
  }
} as const

const header = (name: keyof typeof headers) => ({ $ref: `#/components/headers/${name}` })

/** The names of an answer's headers, by its status. */
const headersOf = (status: string) => ({
  "x-request-id": header("RequestId"),
  ...(status === "401" ? { "www-authenticate": header("Challenge") } : {}),
  ...(status === "429" || status === "503" ? { "retry-after": header("RetryAfter") } : {})
})

/** Every operation with its scope, and with the answers that it can give, and their headers. */
const published = (
  paths: OpenApi.OpenAPISpecPaths,
  endpointOf: (operationId: string) => HttpApiEndpoint.Top | undefined
): unknown =>
  mapValues(paths, (item) =>
    mapValues(item, (operation) =>
      "responses" in operation
        ? {
            ...operation,
            ...gateOf(operation, endpointOf(operation.operationId)),
            responses: mapValues(answersOf(operation), (response, status) => ({
              ...response,
              headers: { ...("headers" in response ? response.headers : {}), ...headersOf(status) }
            }))
          }
        : operation
    )
  )

/** Without a body there is none that could be too large, or of another kind. */
const answersOf = ({ requestBody, responses }: OpenApi.OpenAPISpecOperation) =>
  requestBody === undefined
    ? Object.fromEntries(Object.entries(responses).filter(([status]) => status !== "413" && status !== "415"))
    : responses

/** What an operation says of the scope that it asks for; of two, either will do. */
const gateOf = (
  { description }: OpenApi.OpenAPISpecOperation,
  endpoint: HttpApiEndpoint.Top | undefined
): object => {
  const scopes = Array.from<{ readonly key: string }, ReadonlyArray<string>>(
    endpoint?.middlewares ?? [],
    ({ key }) => scopesOf(key)
  ).flat()
  return {
    description: [description, `Scope: ${scopes.map((scope) => `\`${scope}\``).join(" or ")}.`].join("\n\n"),
    // Beside a scheme that is none of OAuth, OpenAPI 3.1 has the roles that are asked for.
    security: scopes.map((scope) => ({ api_key: [scope] }))
  }
}

const mapValues = <A, B>(
  record: Readonly<Record<string, A>>,
  to: (value: A, key: string) => B
): Record<string, B> =>
  Object.fromEntries(Object.entries(record).map(([key, value]) => [key, to(value, key)]))

const SCHEMAS = "#/components/schemas/"

const reference = (target: string, names: ReadonlyMap<string, string>): string => {
  const name = target.startsWith(SCHEMAS) ? target.slice(SCHEMAS.length) : undefined
  return name === undefined ? target : SCHEMAS + (names.get(name) ?? name)
}

const readable = (name: string): string => {
  const code = /^([A-Z]+(?:_[A-Z]+)*)Encoded$/.exec(name)?.[1]
  return code === undefined
    ? name
    : code
        .split("_")
        .map((word) => word.charAt(0) + word.slice(1).toLowerCase())
        .join("")
}
