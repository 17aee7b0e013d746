import { Context, Schema, SchemaAST } from "effect"
import { HttpApi, type HttpApiEndpoint, OpenApi } from "effect/http-api"
import { MAX_STEP_WAIT_SECONDS } from "./AgentSessions.ts"
import { Api } from "./Api.ts"
import { scopesOf } from "./Authorization.ts"
import { PAGE_OF_LINES } from "./describeLines.ts"
import { EndUserFeedbackApi } from "./EndUserFeedback.ts"
import { schemaExamples } from "./examples.ts"
import {
  list,
  mapKeys,
  mapValues,
  type Node,
  rebuild,
  record,
  referenceOf,
  SCHEMAS
} from "./openApiDocument/node.ts"
import {
  codeOf,
  describeProblem,
  problemExample,
  problemResponse,
  problemSentence
} from "./openApiDocument/problemDocs.ts"
import { headersOf, responseHeaders } from "./openApiDocument/responseHeaders.ts"
import { refer, sharedSchemas } from "./openApiDocument/sharedSchemas.ts"
import { discriminate, namesOf, open, referTo, simplify } from "./openApiDocument/simplify.ts"
import { RuleTestReport } from "../domain/approvals/RuleTest.ts"
import { MAX_QUALITY_DAYS } from "../domain/tasks/FeedbackQuality.ts"
import { MAX_FILTERED_DURATION_MS } from "./Runs.ts"
import { DEFAULT_MAX_ERROR, MAX_ERROR_LIMITS } from "./ApprovalRules.ts"
import { MIN_LOWER_BOUND_LIMITS } from "./Reviewers.ts"
import { DEFAULT_TERMS } from "../domain/approvals/Reviewer.ts"
import { DEFAULT_QUALITY_DAYS } from "./Feedback.ts"
import { DEFAULT_HOOK_WAIT_SECONDS, MAX_HOOK_WAIT_SECONDS } from "./Hooks.ts"
import { DEFAULT_LIMIT, MAX_LIMIT, NUMBER_CURSOR, page } from "./Pagination.ts"
import { webhookDocs, webhookSchemas } from "./webhookDocs.ts"

/** The generator knows no component that only a transform refers to. */
const ruleTestReport = rebuild(
  simplify(Schema.toJsonSchemaDocument(RuleTestReport).definitions["RuleTestReport"]),
  (node) =>
    typeof node["$ref"] === "string" ? { ...node, $ref: node["$ref"].replace("#/$defs/", SCHEMAS) } : node
)

/** Every operation, by an API key or by a feedback token. */
const DocumentedApi = Api.addHttpApi(EndUserFeedbackApi)

/** The schema of a page of lines in place of what `describeLines` left for it. */
const writePage = (node: Node): Node => {
  if (!(PAGE_OF_LINES in node)) return node
  const { line, noun, order } = record(node[PAGE_OF_LINES])
  const name = String(noun)
  const schema = record(Schema.toJsonSchemaDocument(page(name, Schema.Null, Schema.String)).schema)
  const properties = record(schema["properties"])
  return {
    ...schema,
    description: `One page, ${String(order)} first.`,
    properties: {
      ...properties,
      [name]: {
        ...record(properties[name]),
        description: `The items of this page, ${String(order)} first.`,
        items: line
      }
    }
  }
}

/** The page schemas of a document's paths, by name. */
const pagesIn = (value: unknown): Readonly<Record<string, Node>> => {
  if (typeof value !== "object" || value === null) return {}
  const node = record(value)
  const name = pageName(node)
  return name === undefined ? Object.assign({}, ...Object.values(value).map(pagesIn)) : { [name]: node }
}

/** The name of a page: a list of components and the cursor of the next page, and nothing else. */
const pageName = ({ properties }: Node): string | undefined => {
  const { next_cursor, ...lists } = record(properties)
  const [items, ...others] = Object.values(lists)
  if (next_cursor === undefined || items === undefined || others.length > 0) return undefined
  const item = referenceOf(record(record(items)["items"]))
  return item === undefined ? undefined : `${item}Page`
}

/**
 * The OpenAPI 3.1 document as published, made from the one that the library generates:
 *
 * - Its schemas are simplified, so that the common validators and code generators understand them. Ids, times, enums
 *   and pages have names.
 * - Problem schemas are named by their code in Pascal case (`NotFound`), and their responses are shared components that
 *   name the codes.
 * - A property's description stands beside its schema, followed by the schema's own, such as the meanings of an enum.
 * - Query parameters have the type of their value; the generator describes their text.
 * - Operations name their scope, their responses have the headers that the middleware sets, and bodies have an example.
 */
export const openApiDocument = (): OpenApi.OpenAPISpec => {
  const generated = OpenApi.fromApi(DocumentedApi)
  const paged = rebuild(generated.paths, writePage)
  const renamed = record(rename({ schemas: generated.components.schemas, paths: paged }))
  const parts = record(withoutCopies(renamed, record(simplify(renamed["schemas"], refer))))
  const named = mapKeys(record(simplify(parts["schemas"], refer)), componentName)
  const problems = mapValues(
    Object.fromEntries(Object.entries(named).filter(([, schema]) => codeOf(schema) !== undefined)),
    (schema) => describeProblem(record(schema))
  )
  const simplePaths = simplify(parts["paths"], refer)
  const pages = pagesIn(simplePaths)
  const pageNames = namesOf(pages)
  const webhooks = rebuild(webhookDocs, refer)
  const components: Node = {
    ...named,
    ...problems,
    ...pages,
    ...sharedSchemas,
    ...record(rebuild({ ...webhookSchemas, RuleTestReport: ruleTestReport }, refer))
  }
  const openPaths = record(rebuild(simplePaths, (node) => referTo(pageNames, node)))
  const closed = usedSchemas(components, ownRequests(openPaths))
  const all = mapValues(components, (schema, name) => (name in closed ? schema : open(schema)))
  const paths = mapValues(record(discriminate(openPaths, all)), (item) =>
    mapValues(record(item), (operation) => publishOperation(record(operation), all))
  )
  const schemas = discriminate(usedSchemas(all, { paths, webhooks }), all)
  const shared = referencesIn(paths, RESPONSES)
  const published = {
    ...generated,
    info: { ...generated.info, contact: { name: "The maintainers of Countersign" } },
    tags: [
      ...generated.tags,
      { name: "Webhooks", description: "Requests that this service sends to your webhook endpoints." }
    ],
    paths,
    webhooks,
    components: {
      ...generated.components,
      schemas,
      headers: responseHeaders,
      responses: mapValues(
        Object.fromEntries(Object.entries(problems).filter(([name]) => shared.has(name))),
        (schema, name) => problemResponse(name, schema)
      )
    }
  }
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the generated document with values added that the type leaves out
  return published as unknown as OpenApi.OpenAPISpec
}

/**
 * The bodies of requests, except bodies that another vendor defines. Unknown members are refused: their objects stay closed,
 * also in components that they share with responses.
 */
const ownRequests = (paths: Node): ReadonlyArray<unknown> =>
  Object.values(paths)
    .flatMap((item) => Object.values(record(item)).map(record))
    .filter(({ operationId }) => {
      const { annotations = Context.empty() } = endpoints.get(String(operationId)) ?? {}
      return Context.getOrUndefined(annotations, HttpApi.PayloadParseOptions) === undefined
    })
    .map(({ requestBody }) => requestBody)

/** The components that a part of the document needs, directly or through others. */
const usedSchemas = (schemas: Node, part: unknown): Node => {
  const used = new Set<string>()
  const visit = (name: string) => {
    if (used.has(name)) return
    used.add(name)
    referencesIn(schemas[name], SCHEMAS).forEach(visit)
  }
  referencesIn(part, SCHEMAS).forEach(visit)
  // Shared responses are added later, and refer to these.
  referencesIn(part, RESPONSES).forEach(visit)
  return Object.fromEntries(Object.entries(schemas).filter(([name]) => used.has(name)))
}

const RESPONSES = "#/components/responses/"

/** The names of the components of one kind that a part of the document refers to. */
const referencesIn = (part: unknown, kind: string): ReadonlySet<string> =>
  new Set(
    Array.from(JSON.stringify(part).matchAll(/"(#\/components\/\w+\/)(\w+)"/g), ([, found, name]) =>
      found === kind ? String(name) : ""
    ).filter((name) => name !== "")
  )

const publishOperation = (operation: Node, schemas: Node): Node => {
  const { description, operationId, parameters, requestBody } = operation
  const scopes = scopesOfOperation(String(operationId))
  return {
    tags: operation["tags"],
    operationId,
    summary: operation["summary"],
    description:
      scopes.length === 0
        ? description
        : `${String(description)}\n\nScope: ${scopes.map((scope) => `\`${scope}\``).join(" or ")}.`,
    // OpenAPI 3.1 allows role names for schemes other than OAuth; here they are the scopes, and any one of them is enough.
    security: scopes.length === 0 ? operation["security"] : scopes.map((scope) => ({ api_key: [scope] })),
    parameters: list(parameters).map((parameter) => publishParameter(parameter, operationId)),
    ...(requestBody === undefined
      ? {}
      : { requestBody: publishBody(record(requestBody), isBodyRequired(String(operationId)), schemas) }),
    responses: mapValues(record(open(responsesOf(operation))), (response, status) =>
      publishResponse(record(response), status, schemas)
    )
  }
}

/** The scopes of an operation: any one is enough. None if it takes no API key. */
const scopesOfOperation = (operationId: string): ReadonlyArray<string> =>
  Array.from<{ readonly key: string }, ReadonlyArray<string>>(
    endpoints.get(operationId)?.middlewares ?? [],
    ({ key }) => scopesOf(key)
  ).flat()

const isBodyRequired = (operationId: string): boolean =>
  ![...(endpoints.get(operationId)?.payload.values() ?? [])].some(({ schemas }) =>
    schemas.some(({ ast }) => SchemaAST.isVoid(ast))
  )

/** The endpoints of the API by operation id. */
const endpoints: ReadonlyMap<string, HttpApiEndpoint.Top> = new Map(
  Object.values<{ readonly endpoints: Readonly<Record<string, HttpApiEndpoint.Top>> }>(
    DocumentedApi.groups
  ).flatMap((group) =>
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

/**
 * Moves a parameter's description from its schema to the parameter, and documents its value's type instead of string.
 */
const publishParameter = (parameter: Node, operationId: unknown): Node => {
  const { description, ...schema } = record(parameter["schema"])
  return { ...parameter, description, schema: typedParameter(schema, parameter["name"], operationId) }
}

const typedParameter = (schema: Node, name: unknown, operationId: unknown): Node => {
  const values = list(schema["enum"]).map(String)
  if (name === "limit" && schema["pattern"] === NUMBER)
    return { type: "integer", format: "int32", minimum: 1, maximum: MAX_LIMIT, default: DEFAULT_LIMIT }
  if (name === "days" && schema["pattern"] === NUMBER)
    return {
      type: "integer",
      format: "int32",
      minimum: 1,
      maximum: MAX_QUALITY_DAYS,
      default: DEFAULT_QUALITY_DAYS
    }
  if (name === "max_error" && schema["pattern"] === NUMBER)
    return { type: "number", format: "double", ...MAX_ERROR_LIMITS, default: DEFAULT_MAX_ERROR }
  if (name === "min_lower_bound" && schema["pattern"] === NUMBER)
    return {
      type: "number",
      format: "double",
      ...MIN_LOWER_BOUND_LIMITS,
      default: DEFAULT_TERMS.min_lower_bound
    }
  if (name === "max_false_approvals" && schema["pattern"] === NUMBER)
    return {
      type: "number",
      format: "double",
      minimum: 0,
      maximum: 1,
      default: DEFAULT_TERMS.max_false_approvals
    }
  if (name === "wait_seconds" && schema["pattern"] === NUMBER)
    return {
      type: "integer",
      format: "int32",
      minimum: 0,
      ...(operationId === "submitStep"
        ? { maximum: MAX_STEP_WAIT_SECONDS, default: 0 }
        : { maximum: MAX_HOOK_WAIT_SECONDS, default: DEFAULT_HOOK_WAIT_SECONDS })
    }
  if (name === "min_duration_ms" && schema["pattern"] === NUMBER)
    return { type: "integer", format: "int32", minimum: 0, maximum: MAX_FILTERED_DURATION_MS }
  if (schema["pattern"] === NUMBER_CURSOR)
    return { type: "integer", format: "int64", minimum: 0, maximum: Number.MAX_SAFE_INTEGER }
  if (values.join() === "true,false") return { type: "boolean" }
  if (values.join() === "true") return { type: "boolean", enum: [true] }
  return values.length > 0 && values.every((value) => /^-?\d+$/.test(value))
    ? { type: "integer", enum: values.map(Number) }
    : schema
}

const publishBody = (body: Node, required: boolean, schemas: Node): Node => {
  const content = record(body["content"])
  return {
    ...body,
    required,
    description: descriptionOf(record(content["application/json"])["schema"], schemas),
    content: withExamples(content, schemas)
  }
}

const publishResponse = (response: Node, status: string, schemas: Node): Node => {
  const content = record(response["content"])
  const codes = problemsIn(record(content["application/problem+json"])["schema"])
  const [only, ...others] = codes
  if (only !== undefined && others.length === 0 && response["headers"] === undefined)
    return { $ref: RESPONSES + only }
  return {
    ...response,
    description:
      codes.length > 0
        ? codes.map((name) => `- ${problemSentence(schemas[name])}`).join("\n")
        : status === "204" && response["description"] === "<No Content>"
          ? "Success. The response has no body."
          : response["description"],
    ...(response["content"] === undefined ? {} : { content: withExamples(content, schemas) }),
    headers: {
      ...record(response["headers"]),
      ...headersOf(
        status,
        codes.map((name) => schemas[name])
      )
    }
  }
}

/** A content map with an example for each body that has one. */
const withExamples = (content: Node, schemas: Node): Node =>
  mapValues(content, (media, type) => {
    const { schema } = record(media)
    if (type === "application/x-ndjson") return lines(record(schema), schemas)
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
    const example = type === "application/json" ? exampleOf(schema, schemas) : undefined
    return example === undefined ? media : { ...record(media), example }
  })

/** JSON Lines are a string to clients; `contentSchema` describes each line. */
const lines = (schema: Node, schemas: Node): Node => ({
  schema: {
    type: "string",
    description: `JSON Lines: each line is one \`${String(referenceOf(schema))}\` as JSON, and ends with a line feed.`,
    contentMediaType: "application/x-ndjson",
    contentSchema: { type: "array", items: schema }
  },
  example: `${JSON.stringify(exampleOf(schema, schemas))}\n`
})

/** The example of a schema: of a component its own, of a page one item. */
const exampleOf = (schema: unknown, schemas: Node): unknown => {
  const { properties } = record(schema)
  const name = referenceOf(record(schema))
  if (name !== undefined) return schemaExamples[name] ?? exampleOf(schemas[name], schemas)
  const page = Object.entries(record(properties)).flatMap(
    ([name, property]): Array<readonly [string, unknown]> => {
      const item = exampleOf(record(property)["items"], schemas)
      return name === "next_cursor" ? [[name, null]] : item === undefined ? [] : [[name, [item]]]
    }
  )
  return page.length > 1 ? Object.fromEntries(page) : undefined
}

/** The names of the problem schemas that a response can have. */
const problemsIn = (schema: unknown): ReadonlyArray<string> =>
  [record(schema), ...list(record(schema)["oneOf"]).map(record)].flatMap((part) => referenceOf(part) ?? [])

const descriptionOf = (schema: unknown, schemas: Node): unknown => {
  const { description } = record(schema)
  const name = referenceOf(record(schema))
  return name === undefined ? description : record(schemas[name])["description"]
}

/** Renames the components that references name. */
const rename = (value: unknown): unknown =>
  rebuild(value, (node) => {
    const name = referenceOf(node)
    return name === undefined ? node : { ...node, $ref: SCHEMAS + componentName(name) }
  })

/**
 * Refers to a schema instead of its copy. The generator numbers a name (`ApprovalSnapshot_1`) if the schema is sent as JSON and also as the
 * data of server-sent events, although both are alike once simplified.
 */
const withoutCopies = (value: unknown, schemas: Node): unknown => {
  const copies = copiesIn(schemas)
  return rebuild(value, (node) => {
    const original = copies.get(referenceOf(node) ?? "")
    return original === undefined ? node : { ...node, $ref: SCHEMAS + original }
  })
}

/** The original of each copy. A schema with a numbered name is one unless it differs from its original, or refers to one that does. */
const copiesIn = (schemas: Node): ReadonlyMap<string, string> => {
  const copies = new Map(
    Object.keys(schemas).flatMap((name) => {
      const original = name.replace(/_\d+$/, "")
      return original !== name && original in schemas ? [[name, original] as const] : []
    })
  )
  /** A schema's text, with the originals of copies in it. */
  const textOf = (name: string) =>
    JSON.stringify(schemas[name], (key, part: unknown) =>
      key === "$ref" && typeof part === "string"
        ? SCHEMAS + (copies.get(part.slice(SCHEMAS.length)) ?? part.slice(SCHEMAS.length))
        : part
    )
  for (let size = -1; size !== copies.size;) {
    size = copies.size
    for (const [name, original] of copies) if (textOf(name) !== textOf(original)) copies.delete(name)
  }
  return copies
}

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
