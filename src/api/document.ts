import type { OpenApi } from "effect/http-api"

/**
 * The OpenAPI 3.1 document as it is published. Problems are named by their code in Pascal case (`NotFound`), which is how generated clients
 * call them. Objects are left open: unknown keys of a body are ignored, and an answer may gain members. Headers that the frame writes are
 * added to those of the operation.
 */
export const asPublished = (document: OpenApi.OpenAPISpec): OpenApi.OpenAPISpec => {
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
    ...(renamed({ ...document, paths: withHeaders(document.paths) }) as OpenApi.OpenAPISpec),
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

/** Every answer with its headers. */
const withHeaders = (paths: OpenApi.OpenAPISpecPaths): unknown =>
  mapValues(paths, (item) =>
    mapValues(item, (operation) =>
      "responses" in operation
        ? {
            ...operation,
            responses: mapValues(operation.responses, (response, status) => ({
              ...response,
              headers: { ...("headers" in response ? response.headers : {}), ...headersOf(status) }
            }))
          }
        : operation
    )
  )

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
