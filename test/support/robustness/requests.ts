import type { Random } from "./random.ts"
import { anything, fitting, idOf, type Known, type SchemaNode, spoilt, texts } from "./values.ts"

/** An operation of the OpenAPI document. */
export interface Operation {
  readonly id: string
  readonly method: string
  readonly path: string
  readonly query: ReadonlyArray<{ readonly name: string; readonly schema: SchemaNode }>
  /** The schema of the request body, or `undefined` if it has none. */
  readonly body: SchemaNode | undefined
  /** The declared response statuses. */
  readonly statuses: ReadonlySet<number>
}

/** A raw request. */
export interface Sent {
  readonly operation: Operation
  readonly method: string
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: Uint8Array | undefined
}

/** API keys for the requests. */
export interface Keys {
  readonly admin: string
  readonly others: readonly [string, ...ReadonlyArray<string>]
}

const record = (value: unknown): SchemaNode =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? { ...value } : {}

const list = (value: unknown): ReadonlyArray<SchemaNode> => (Array.isArray(value) ? value.map(record) : [])

/** The operations of an OpenAPI document. */
export const operationsOf = (document: unknown): ReadonlyArray<Operation> =>
  Object.entries(record(record(document)["paths"])).flatMap(([path, methods]) =>
    Object.entries(record(methods)).map(([method, value]): Operation => {
      const operation = record(value)
      const content = record(record(operation["requestBody"])["content"])
      return {
        id: String(operation["operationId"]),
        method: method.toUpperCase(),
        path,
        query: list(operation["parameters"])
          .filter((parameter) => parameter["in"] === "query")
          .map((parameter) => ({ name: String(parameter["name"]), schema: record(parameter["schema"]) })),
        body:
          "application/json" in content ? record(record(content["application/json"])["schema"]) : undefined,
        statuses: new Set(Object.keys(record(operation["responses"])).map(Number))
      }
    })
  )

/** The named schemas of the document. */
export const definitionsOf = (document: unknown): SchemaNode =>
  record(record(record(document)["components"])["schemas"])

const prefixOfPath: Readonly<Record<string, string>> = {
  "agent-sessions": "ses",
  "agent-approvals": "apr",
  "notification-endpoints": "nep",
  "api-keys": "key",
  tasks: "tsk",
  datasets: "dst",
  comparisons: "cmp",
  feedback: "fbk",
  "telemetry-destinations": "tel",
  deliveries: "ndl"
}

const pathOf = (random: Random, known: Known, { path }: Operation): string => {
  const segments = path.split("/")
  return segments
    .map((segment, index) => {
      if (!segment.startsWith("{")) return segment
      const prefix = prefixOfPath[segments[index - 1] ?? ""]
      if (random.chance(0.05)) return encode(random.pick(texts))
      return prefix === undefined
        ? encode(`step_id ${random.below(50)}`)
        : encode(idOf(random, known, prefix))
    })
    .join("/")
}

/** Percent-encodes a text. Lone surrogates are replaced first. Long texts are cut, because over-long paths have a test of their own. */
const encode = (text: string): string => encodeURIComponent(text.slice(0, 400).toWellFormed())

const queryOf = (random: Random, known: Known, definitions: SchemaNode, { query }: Operation): string => {
  const pairs = query.flatMap(({ name, schema }) => {
    if (random.chance(0.6)) return []
    const value = random.chance(0.6) ? fitting(random, known, definitions, schema, name) : random.pick(texts)
    const pair = `${name}=${encode(String(value))}`
    return random.chance(0.05) ? [pair, pair] : [pair]
  })
  if (random.chance(0.05))
    pairs.push(`${encode(random.pick(texts))}=${encode(random.pick(texts))}`, "&&=", "%")
  return pairs.length === 0 ? "" : `?${pairs.join("&")}`
}

/** The body as text, sometimes with its JSON syntax broken. */
const brokenText = (random: Random, text: string): Uint8Array => {
  switch (random.below(8)) {
    case 0:
      return Buffer.from(text.slice(0, random.below(text.length)))
    case 1:
      return Buffer.from(text.replace("{", `{"name":1,"name":2,`))
    case 2:
      return Buffer.from(`${"[".repeat(3_000)}${text}`)
    case 3:
      return Buffer.concat([Buffer.from(text.slice(0, -1)), Buffer.from([0xff, 0xfe, 0x7d])])
    case 4:
      return Buffer.from(`\ufeff${text}`)
    case 5:
      return Buffer.from(text.replaceAll(/\d+/g, "1e400"))
    case 6:
      return Buffer.from(`${text} ${text}`)
    default:
      return Buffer.alloc(random.chance(0.02) ? 1_100_000 : 0, "[")
  }
}

const bodyOf = (
  random: Random,
  known: Known,
  definitions: SchemaNode,
  { body }: Operation
): Uint8Array | undefined => {
  if (body === undefined)
    return random.chance(0.05) ? Buffer.from(JSON.stringify(anything(random))) : undefined
  const right = fitting(random, known, definitions, body)
  const choice = random.next()
  const value = choice < 0.4 ? right : spoilt(random, right)
  const text = JSON.stringify(value) ?? ""
  return choice > 0.9 ? brokenText(random, text) : Buffer.from(text)
}

/** Extreme parameter values as they appear in a URL: empty, NUL, invalid UTF-8, extreme times, NUL within a cursor. */
const extremes = ["", "%00", "a%00b", "%ff", "0000-01-01T00:00:00Z", "9999-12-31T23:59:59.999Z", "AA"]

/** Requests with one path or query parameter set to each extreme value, otherwise valid. */
export const withExtremes = (
  random: Random,
  known: Known,
  { admin }: Keys,
  definitions: SchemaNode,
  operation: Operation
): ReadonlyArray<Sent> => {
  const segments = operation.path.split("/").map((segment, index, all) => {
    const prefix = prefixOfPath[all[index - 1] ?? ""]
    return !segment.startsWith("{")
      ? { segment, given: false }
      : { segment: prefix === undefined ? "step" : encode(idOf(random, known, prefix)), given: true }
  })
  const path = segments.map(({ segment }) => segment).join("/")
  const paths = segments.flatMap(({ given }, at) =>
    given
      ? extremes.map((extreme) =>
          segments.map(({ segment }, index) => (index === at ? extreme : segment)).join("/")
        )
      : []
  )
  const queries = operation.query.flatMap(({ name }) =>
    extremes.map((extreme) => `${path}?${name}=${extreme}`)
  )
  return [...paths, ...queries].map((path) => ({
    operation,
    method: operation.method,
    path,
    headers: { authorization: `Bearer ${admin}`, "content-type": "application/json" },
    body:
      operation.body === undefined
        ? undefined
        : Buffer.from(JSON.stringify(fitting(random, known, definitions, operation.body)))
  }))
}

const types: readonly [string, ...ReadonlyArray<string>] = [
  "application/json",
  "application/json; charset=latin1",
  "text/plain",
  "multipart/form-data; boundary=x",
  "application/x-www-form-urlencoded",
  "x"
]

const headersOf = (random: Random, keys: Keys, hasBody: boolean): Record<string, string> => {
  const headers: Record<string, string> = {}
  const key = random.chance(0.92) ? keys.admin : random.pick(keys.others)
  if (!random.chance(0.01)) headers["authorization"] = random.chance(0.99) ? `Bearer ${key}` : key
  if (hasBody) headers["content-type"] = random.chance(0.95) ? "application/json" : random.pick(types)
  if (random.chance(0.05)) {
    headers["idempotency-key"] = random.chance(0.7)
      ? `key-${random.below(40)}`
      : "x".repeat(random.below(400))
  }
  if (random.chance(0.05))
    headers["last-event-id"] = random.pick(["0", "1", "-1", "99999999999999999999", "x"])
  if (random.chance(0.02))
    headers["traceparent"] = random.pick(["00-0-0-0", `00-${"1".repeat(32)}-${"1".repeat(16)}-01`])
  if (random.chance(0.02)) headers["baggage"] = "a=b,".repeat(500)
  if (random.chance(0.02)) headers["accept"] = random.pick(["text/html", "*/*;q=0", "x"])
  if (random.chance(0.02)) headers["content-encoding"] = random.pick(["gzip", "br", "x"])
  return headers
}

const methods: readonly [string, ...ReadonlyArray<string>] = [
  "GET",
  "HEAD",
  "POST",
  "PUT",
  "PATCH",
  "DELETE",
  "OPTIONS"
]

/** The next request for an operation. */
export const requestFor = (
  random: Random,
  known: Known,
  keys: Keys,
  definitions: SchemaNode,
  operation: Operation
): Sent => {
  const method = random.chance(0.02) ? random.pick(methods) : operation.method
  const body =
    method === "GET" || method === "HEAD" ? undefined : bodyOf(random, known, definitions, operation)
  return {
    operation,
    method,
    path: pathOf(random, known, operation) + queryOf(random, known, definitions, operation),
    headers: headersOf(random, keys, body !== undefined),
    body
  }
}
