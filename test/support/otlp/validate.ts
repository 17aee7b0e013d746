/**
 * A strict parser of `ExportTraceServiceRequest` in JSON, written from OTLP 1.x ("JSON Protobuf Encoding") and the
 * protobuf files of opentelemetry-proto 1.11, independently of the encoder. It rejects what receivers would tolerate.
 */

/** A span as a collector stores it. */
export interface ReadSpan {
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId: string | undefined
  readonly traceState: string | undefined
  readonly name: string
  readonly kind: number
  readonly startMillis: number
  readonly endMillis: number
  readonly statusCode: number
  readonly attributes: Readonly<Record<string, unknown>>
  readonly events: ReadonlyArray<{
    readonly name: string
    readonly attributes: Readonly<Record<string, unknown>>
  }>
  readonly links: ReadonlyArray<{ readonly traceId: string; readonly spanId: string }>
  readonly resource: Readonly<Record<string, unknown>>
  readonly scope: string
}

class NotOtlp extends Error {}

const refuse = (path: string, why: string): never => {
  throw new NotOtlp(`${path}: ${why}`)
}

type Fields = Readonly<Record<string, unknown>>

/** Checks that an object has only `known` fields and all `required` ones. */
const object = (
  value: unknown,
  path: string,
  known: ReadonlyArray<string>,
  required: ReadonlyArray<string> = []
): Fields => {
  if (typeof value !== "object" || value === null || Array.isArray(value))
    return refuse(path, "not an object")
  const fields: Fields = { ...value }
  for (const name of Object.keys(fields))
    if (!known.includes(name)) refuse(`${path}.${name}`, "not a field of OTLP")
  for (const name of required) if (!(name in fields)) refuse(`${path}.${name}`, "missing")
  return fields
}

const list = (value: unknown, path: string): ReadonlyArray<unknown> =>
  value === undefined ? [] : Array.isArray(value) ? value : refuse(path, "not an array")

const text = (value: unknown, path: string): string => {
  if (typeof value !== "string") return refuse(path, "not a string")
  return value.isWellFormed() ? value : refuse(path, "a lone surrogate")
}

const integer = (value: unknown, path: string): number =>
  typeof value === "number" && Number.isInteger(value) ? value : refuse(path, "not an integer")

const hex = (value: unknown, path: string, digits: number): string => {
  const id = text(value, path)
  if (id.length !== digits || !/^[0-9a-f]+$/.test(id)) refuse(path, `not ${digits} lowercase hex digits`)
  return /^0+$/.test(id) ? refuse(path, "all zero") : id
}

/** A 64-bit integer: a decimal string. */
const int64 = (value: unknown, path: string): bigint => {
  const digits = text(value, path)
  if (!/^(0|-?[1-9]\d*)$/.test(digits)) refuse(path, "not a decimal string")
  const number = BigInt(digits)
  return BigInt.asIntN(64, number) === number ? number : refuse(path, "over 64 bits")
}

const anyValue = (value: unknown, path: string): unknown => {
  const fields = object(value, path, [
    "stringValue",
    "boolValue",
    "intValue",
    "doubleValue",
    "arrayValue",
    "kvlistValue",
    "bytesValue"
  ])
  const [entry, ...more] = Object.entries(fields)
  if (entry === undefined || more.length > 0) return refuse(path, "not exactly one value")
  const [kind, inner] = entry
  switch (kind) {
    case "stringValue":
      return text(inner, path)
    case "boolValue":
      return typeof inner === "boolean" ? inner : refuse(path, "not a boolean")
    case "intValue":
      return int64(inner, path)
    case "doubleValue":
      return typeof inner === "number" || inner === "NaN" || inner === "Infinity" || inner === "-Infinity"
        ? Number(inner)
        : refuse(path, "not a double")
    case "arrayValue":
      return list(object(inner, path, ["values"])["values"], path).map((item, at) =>
        anyValue(item, `${path}[${at}]`)
      )
    default:
      return refuse(path, `${kind} is not used by us`)
  }
}

const attributes = (value: unknown, path: string): Record<string, unknown> => {
  const found: Record<string, unknown> = {}
  for (const [at, item] of list(value, path).entries()) {
    const { key, value: inner } = object(item, `${path}[${at}]`, ["key", "value"], ["key", "value"])
    const name = text(key, `${path}[${at}].key`)
    if (name === "") refuse(`${path}[${at}].key`, "empty")
    // "The collection of attributes … Attribute keys MUST be unique" (trace.proto)
    if (name in found) refuse(`${path}.${name}`, "given twice")
    found[name] = anyValue(inner, `${path}.${name}`)
  }
  return found
}

const statusCode = (value: unknown, path: string): number => {
  if (value === undefined) return 0
  const { code } = object(value, path, ["code", "message"])
  const number = integer(code ?? 0, `${path}.code`)
  return number >= 0 && number <= 2 ? number : refuse(path, "an unknown status code")
}

const spanFields = [
  "traceId",
  "spanId",
  "traceState",
  "parentSpanId",
  "flags",
  "name",
  "kind",
  "startTimeUnixNano",
  "endTimeUnixNano",
  "attributes",
  "droppedAttributesCount",
  "events",
  "droppedEventsCount",
  "links",
  "droppedLinksCount",
  "status"
]

const span = (value: unknown, path: string, resource: Record<string, unknown>, scope: string): ReadSpan => {
  const fields = object(value, path, spanFields, [
    "traceId",
    "spanId",
    "name",
    "kind",
    "startTimeUnixNano",
    "endTimeUnixNano"
  ])
  const start = int64(fields["startTimeUnixNano"], `${path}.startTimeUnixNano`)
  const end = int64(fields["endTimeUnixNano"], `${path}.endTimeUnixNano`)
  if (start <= 0n || end < start) refuse(path, "ends before it starts, or has no time")
  const kind = integer(fields["kind"], `${path}.kind`)
  if (kind < 1 || kind > 5) refuse(`${path}.kind`, "an unknown kind")
  const flags = integer(fields["flags"] ?? 0, `${path}.flags`)
  if (flags < 0 || flags > 0x3ff) refuse(`${path}.flags`, "reserved bits are set")
  const traceState =
    fields["traceState"] === undefined ? undefined : text(fields["traceState"], `${path}.traceState`)
  if (traceState !== undefined && !/^ot=th:(0|[0-9a-f]{0,13}[1-9a-f])$/.test(traceState)) {
    refuse(`${path}.traceState`, "not a threshold without trailing zeros")
  }
  const name = text(fields["name"], `${path}.name`)
  if (name === "") refuse(`${path}.name`, "empty")
  return {
    traceId: hex(fields["traceId"], `${path}.traceId`, 32),
    spanId: hex(fields["spanId"], `${path}.spanId`, 16),
    parentSpanId:
      fields["parentSpanId"] === undefined
        ? undefined
        : hex(fields["parentSpanId"], `${path}.parentSpanId`, 16),
    traceState,
    name,
    kind,
    startMillis: Number(start / 1_000_000n),
    endMillis: Number(end / 1_000_000n),
    statusCode: statusCode(fields["status"], `${path}.status`),
    attributes: attributes(fields["attributes"], `${path}.attributes`),
    events: list(fields["events"], `${path}.events`).map((item, at) => {
      const where = `${path}.events[${at}]`
      const event = object(
        item,
        where,
        ["timeUnixNano", "name", "attributes", "droppedAttributesCount"],
        ["timeUnixNano", "name"]
      )
      int64(event["timeUnixNano"], `${where}.timeUnixNano`)
      return {
        name: text(event["name"], `${where}.name`),
        attributes: attributes(event["attributes"], `${where}.attributes`)
      }
    }),
    links: list(fields["links"], `${path}.links`).map((item, at) => {
      const where = `${path}.links[${at}]`
      const link = object(
        item,
        where,
        ["traceId", "spanId", "traceState", "attributes", "droppedAttributesCount", "flags"],
        ["traceId", "spanId"]
      )
      return {
        traceId: hex(link["traceId"], `${where}.traceId`, 32),
        spanId: hex(link["spanId"], `${where}.spanId`, 16)
      }
    }),
    resource,
    scope
  }
}

/** Parses the spans of a request, at least one. Throws with the path and the reason if it is not OTLP. */
export const readRequest = (json: string): ReadonlyArray<ReadSpan> => {
  const parsed: unknown = JSON.parse(json)
  const root = object(parsed, "$", ["resourceSpans"], ["resourceSpans"])
  const spans: Array<ReadSpan> = []
  for (const [r, item] of list(root["resourceSpans"], "$.resourceSpans").entries()) {
    const path = `$.resourceSpans[${r}]`
    const fields = object(item, path, ["resource", "scopeSpans", "schemaUrl"], ["resource", "scopeSpans"])
    const resource = attributes(
      object(fields["resource"], `${path}.resource`, ["attributes", "droppedAttributesCount"])["attributes"],
      `${path}.resource.attributes`
    )
    if (typeof resource["service.name"] !== "string") refuse(path, "service.name is missing")
    for (const [s, scoped] of list(fields["scopeSpans"], path).entries()) {
      const where = `${path}.scopeSpans[${s}]`
      const of = object(scoped, where, ["scope", "spans", "schemaUrl"], ["scope", "spans"])
      const scope = object(of["scope"], `${where}.scope`, ["name", "version", "attributes"], ["name"])
      const name = text(scope["name"], `${where}.scope.name`)
      for (const [at, one] of list(of["spans"], where).entries())
        spans.push(span(one, `${where}.spans[${at}]`, resource, name))
    }
  }
  return spans.length === 0 ? refuse("$", "a request without spans") : spans
}
