import { Context, Predicate, Schema, SchemaAST } from "effect"
import { type HttpApiEndpoint, OpenApi } from "effect/http-api"
import { Api } from "./Api.ts"
import * as ApprovalProblems from "./ApprovalProblems.ts"
import { scopesOf } from "./Authorization.ts"
import { problemExampleFields, schemaExamples } from "./examples.ts"
import { DEFAULT_LIMIT, MAX_LIMIT } from "./Pagination.ts"
import * as Problems from "./Problems.ts"
import { webhookDocs } from "./webhookDocs.ts"

/** A node of the document. */
type Node = Readonly<Record<string, unknown>>

/**
 * The OpenAPI 3.1 document as published, made from the one that the library generates:
 *
 * - Problem schemas are named by their code in Pascal case (`NotFound`), and their responses are shared components that name the codes.
 * - Objects are open: unknown members of a request are ignored, and a response can gain members.
 * - A property's description stands beside its schema, followed by the schema's own, such as the meanings of an enum.
 * - Query parameters have the type of their value; the generator describes their text.
 * - Operations name their scope, their responses have the headers that the middleware sets, and bodies have an example.
 */
export const openApiDocument = (): OpenApi.OpenAPISpec => {
  const generated = OpenApi.fromApi(Api)
  const named = mapKeys(record(tidy(generated.components.schemas)), componentName)
  const problems = mapValues(
    Object.fromEntries(Object.entries(named).filter(([, schema]) => codeOf(schema) !== undefined)),
    (schema) => describeProblem(record(schema))
  )
  const schemas = { ...named, ...problems }
  const paths = mapValues(record(tidy(generated.paths)), (item) =>
    mapValues(record(item), (operation) => publishOperation(record(operation), schemas))
  )
  const shared = sharedResponses(paths)
  const published = {
    ...generated,
    info: { ...generated.info, contact: { name: "The maintainers of Countersign" } },
    tags: [
      ...generated.tags,
      { name: "Webhooks", description: "Requests that this service sends to your webhook endpoints." }
    ],
    paths,
    webhooks: webhookDocs,
    components: {
      ...generated.components,
      schemas,
      headers,
      responses: mapValues(
        Object.fromEntries(Object.entries(problems).filter(([name]) => shared.has(name))),
        (schema, name) => problemResponse(name, schema)
      )
    }
  }
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the generated document with values added that the type leaves out
  return published as unknown as OpenApi.OpenAPISpec
}

/** Headers that the middleware sets, whatever the operation. */
const headers = {
  RequestId: {
    description: "ID of the request. Include it when you report a problem.",
    schema: { type: "string" }
  },
  RateLimitPolicy: {
    description:
      'The rate limit of the API key, such as `"key";q=500;w=1`: `q` requests per window of `w` seconds (draft-ietf-httpapi-ratelimit-headers-10). Absent if rate limits are off.',
    schema: { type: "string" }
  },
  RateLimit: {
    description:
      'What is left of the rate limit, such as `"key";r=499;t=1`: `r` requests in the next `t` seconds. Absent if rate limits are off.',
    schema: { type: "string" }
  },
  Challenge: {
    description: 'How to authenticate: `Bearer realm="countersign"` (RFC 9110).',
    schema: { type: "string" }
  },
  RetryAfter: {
    description: "Seconds to wait before the request is sent again.",
    schema: { type: "integer", minimum: 0 }
  }
} as const

const header = (name: keyof typeof headers) => ({ $ref: `#/components/headers/${name}` })

const headersOf = (status: string) => ({
  "x-request-id": header("RequestId"),
  ...(status === "401"
    ? {}
    : { ratelimit: header("RateLimit"), "ratelimit-policy": header("RateLimitPolicy") }),
  ...(status === "401" ? { "www-authenticate": header("Challenge") } : {}),
  ...(status === "429" || status === "503" ? { "retry-after": header("RetryAfter") } : {})
})

const publishOperation = (operation: Node, schemas: Node): Node => {
  const { description, operationId, parameters, requestBody } = operation
  const scopes = scopesOfOperation(String(operationId))
  return {
    tags: operation["tags"],
    operationId,
    summary: operation["summary"],
    description: `${String(description)}\n\nScope: ${scopes.map((scope) => `\`${scope}\``).join(" or ")}.`,
    // OpenAPI 3.1 allows role names for schemes other than OAuth; here they are the scopes, of which one is enough.
    security: scopes.map((scope) => ({ api_key: [scope] })),
    parameters: list(parameters).map(publishParameter),
    ...(requestBody === undefined ? {} : { requestBody: publishBody(record(requestBody), schemas) }),
    responses: mapValues(responsesOf(operation), (response, status) =>
      publishResponse(record(response), status, schemas)
    )
  }
}

/** The scopes of an operation, of which one is enough. */
const scopesOfOperation = (operationId: string): ReadonlyArray<string> =>
  Array.from<{ readonly key: string }, ReadonlyArray<string>>(
    endpoints.get(operationId)?.middlewares ?? [],
    ({ key }) => scopesOf(key)
  ).flat()

/** The endpoints of the API by operation id. */
const endpoints: ReadonlyMap<string, HttpApiEndpoint.Top> = new Map(
  Object.values<{ readonly endpoints: Readonly<Record<string, HttpApiEndpoint.Top>> }>(Api.groups).flatMap(
    (group) =>
      Object.values(group.endpoints).flatMap((endpoint) => {
        const id = Context.getOrUndefined(endpoint.annotations, OpenApi.Identifier)
        return id === undefined ? [] : [[id, endpoint] as const]
      })
  )
)

/** An operation without a body cannot fail because of one. */
const responsesOf = ({ requestBody, responses }: Node): Node =>
  requestBody === undefined
    ? Object.fromEntries(
        Object.entries(record(responses)).filter(([status]) => status !== "413" && status !== "415")
      )
    : record(responses)

const NUMBER = "^[+-]?(?:\\d+(?:\\.\\d+)?|\\.\\d+)(?:[Ee][+-]?\\d+)?$"

/** A parameter, with its description on itself, and with the type of a query's value. */
const publishParameter = (parameter: Node): Node => {
  const { description, ...schema } = record(parameter["schema"])
  return {
    ...parameter,
    description,
    schema: parameter["in"] === "query" ? typedQuery(schema, parameter["name"]) : schema
  }
}

const typedQuery = (schema: Node, name: unknown): Node => {
  const values = list(schema["enum"]).map(String)
  if (name === "limit" && schema["pattern"] === NUMBER)
    return { type: "integer", minimum: 1, maximum: MAX_LIMIT, default: DEFAULT_LIMIT }
  if (values.join() === "true,false") return { type: "boolean" }
  return values.length > 0 && values.every((value) => /^-?\d+$/.test(value))
    ? { type: "integer", enum: values.map(Number) }
    : schema
}

const publishBody = (body: Node, schemas: Node): Node => {
  const content = record(body["content"])
  return {
    ...body,
    description: descriptionOf(record(content["application/json"])["schema"], schemas),
    content: withExamples(content, schemas)
  }
}

const publishResponse = (response: Node, status: string, schemas: Node): Node => {
  const content = record(response["content"])
  const codes = problemsIn(record(content["application/problem+json"])["schema"])
  const [only, ...others] = codes
  if (only !== undefined && others.length === 0 && response["headers"] === undefined)
    return { $ref: `#/components/responses/${only}` }
  return {
    ...response,
    description:
      codes.length > 0
        ? codes.map((name) => `- ${problemSentence(schemas[name])}`).join("\n")
        : status === "204" && response["description"] === "<No Content>"
          ? "Success. The response has no body."
          : response["description"],
    ...(response["content"] === undefined ? {} : { content: withExamples(content, schemas) }),
    headers: { ...record(response["headers"]), ...headersOf(status) }
  }
}

/** A content map with an example for each body that has one. */
const withExamples = (content: Node, schemas: Node): Node =>
  mapValues(content, (media, type) => {
    const { schema } = record(media)
    const problems = type === "application/problem+json" ? problemsIn(schema) : []
    if (problems.length > 0)
      return {
        schema,
        examples: Object.fromEntries(
          problems.map((name) => [
            name,
            { summary: codeOf(schemas[name]), value: problemExample(name, record(schemas[name])) }
          ])
        )
      }
    const example =
      type === "application/json" || type === "application/x-ndjson" ? exampleOf(schema) : undefined
    return example === undefined ? media : { ...record(media), example }
  })

/** The example of a schema: of a component its own, of a page one item. */
const exampleOf = (schema: unknown): unknown => {
  const { properties, $ref } = record(schema)
  if (typeof $ref === "string") return schemaExamples[nameOf($ref)]
  const page = Object.entries(record(properties)).flatMap(
    ([name, property]): Array<readonly [string, unknown]> => {
      const item = exampleOf(record(property)["items"])
      return name === "next_cursor" ? [[name, null]] : item === undefined ? [] : [[name, [item]]]
    }
  )
  return page.length > 1 ? Object.fromEntries(page) : undefined
}

/** The names of the problem schemas that a response can have. */
const problemsIn = (schema: unknown): ReadonlyArray<string> =>
  [record(schema), ...list(record(schema)["anyOf"]).map(record)].flatMap(({ $ref }) =>
    typeof $ref === "string" ? [nameOf($ref)] : []
  )

/** The names of the shared responses that operations refer to. */
const sharedResponses = (paths: Node): ReadonlySet<string> =>
  new Set(
    Array.from(JSON.stringify(paths).matchAll(/"#\/components\/responses\/(\w+)"/g), ([, name]) =>
      String(name)
    )
  )

const problemResponse = (name: string, schema: unknown): Node => ({
  description: problemSentence(schema),
  content: {
    "application/problem+json": {
      schema: { $ref: SCHEMAS + name },
      example: problemExample(name, record(schema))
    }
  },
  headers: headersOf(String(constantOf(schema, "status")))
})

const problemSentence = (schema: unknown): string =>
  `\`${String(codeOf(schema))}\`: ${String(record(schema)["description"])}`

const problemExample = (name: string, schema: Node): Node => ({
  type: constantOf(schema, "type"),
  title: constantOf(schema, "title"),
  status: constantOf(schema, "status"),
  detail: schema["description"],
  code: codeOf(schema),
  request_id: "req_019abf51c3a27d4e8b90a1b2c3d4e515",
  ...problemExampleFields[name]
})

/** The members that RFC 9457 gives every problem. The library declares them, so their descriptions are here. */
const problemMembers: Readonly<Record<string, string>> = {
  type: "URN of the kind of problem; ends with its `code`.",
  title: "The kind of problem, in a few words. The same for every problem of this `code`.",
  status: "The HTTP status.",
  detail: "What happened and what to do, for people. Do not parse it.",
  instance: "Not used."
}

/** The descriptions of problems by code, from their classes. The generator drops them, but keeps those of other schemas. */
const problemDescriptions: ReadonlyMap<string | undefined, string | undefined> = new Map(
  Object.values({ ...Problems, ...ApprovalProblems })
    .filter(Schema.isSchema)
    .map(({ ast }) => [SchemaAST.resolveIdentifier(ast), SchemaAST.resolveDescription(ast)])
)

const describeProblem = (schema: Node): Node => ({
  ...schema,
  description: problemDescriptions.get(codeOf(schema)),
  properties: mapValues(record(schema["properties"]), (property, name) => {
    const description = problemMembers[name]
    return description === undefined ? property : { ...record(property), description }
  })
})

/** The one value of an enum property. */
const constantOf = (schema: unknown, property: string): unknown =>
  list(record(record(record(schema)["properties"])[property])["enum"])[0]

/** The code of a problem schema; undefined for other schemas. */
const codeOf = (schema: unknown): string | undefined => {
  const code = constantOf(schema, "code")
  return typeof code === "string" && /^[A-Z_]+$/.test(code) ? code : undefined
}

const descriptionOf = (schema: unknown, schemas: Node): unknown => {
  const { $ref, description } = record(schema)
  return typeof $ref === "string" ? record(schemas[nameOf($ref)])["description"] : description
}

/**
 * Rewrites the generator's schemas: opens objects, renames references, and lifts the annotations that it puts into an `allOf` of their own.
 */
const tidy = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(tidy)
  if (!Predicate.isReadonlyObject(value)) return value
  const entries = Object.entries(value)
    .filter(([key, inner]) => key !== "additionalProperties" || inner !== false)
    .map(
      ([key, inner]) =>
        [
          key,
          key === "$ref" && typeof inner === "string"
            ? SCHEMAS + componentName(inner.slice(SCHEMAS.length))
            : tidy(inner)
        ] as const
    )
  return liftAnnotations(Object.fromEntries(entries))
}

const liftAnnotations = (node: Node): Node => {
  const { allOf, description, ...rest } = node
  if (!Array.isArray(allOf)) return node
  const parts = allOf.map(record)
  const described = parts.filter((part) => Object.keys(part).join() === "description")
  const others = parts.filter((part) => !described.includes(part))
  const descriptions = [...described.map((part) => part["description"]), description].filter(
    (one) => one !== undefined
  )
  const [first] = others
  const merged =
    others.length === 1 && first !== undefined && Object.keys(first).every((key) => !(key in rest))
      ? first
      : undefined
  return {
    ...rest,
    ...(merged ?? (others.length > 0 ? { allOf: others } : {})),
    ...(descriptions.length > 0 ? { description: descriptions.map(String).join("\n\n") } : {})
  }
}

const SCHEMAS = "#/components/schemas/"

const nameOf = (reference: string): string => reference.slice(SCHEMAS.length)

/** `NOT_FOUNDEncoded`, the generator's name of a problem's wire form, becomes `NotFound`. */
const componentName = (name: string): string => {
  const code = /^([A-Z]+(?:_[A-Z]+)*)Encoded$/.exec(name)?.[1]
  return code === undefined
    ? name
    : code
        .split("_")
        .map((word) => word.charAt(0) + word.slice(1).toLowerCase())
        .join("")
}

const record = (value: unknown): Node => (Predicate.isReadonlyObject(value) ? value : {})

const list = (value: unknown): ReadonlyArray<Node> => (Array.isArray(value) ? value : [])

const mapValues = <B>(node: Node, to: (value: unknown, key: string) => B): Record<string, B> =>
  Object.fromEntries(Object.entries(node).map(([key, value]) => [key, to(value, key)]))

const mapKeys = (node: Node, to: (key: string) => string): Node =>
  Object.fromEntries(Object.entries(node).map(([key, value]) => [to(key), value]))

/** The API whose generated document is the published one, for pages that render it. */
export const documentedApi = Api.annotate(OpenApi.Transform, () => openApiDocument())
