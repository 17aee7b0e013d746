import { Effect, Predicate } from "effect"

/** Spans that are encoded before other fibers run: a fraction of a millisecond. */
const SPANS_PER_SLICE = 16

/**
 * Translates an `ExportTraceServiceRequest` of this service from JSON to Protobuf (`trace.proto`, `common.proto`, `resource.proto` of
 * opentelemetry-proto 1.11), for tools that take no JSON. Fields are in the order of their numbers; fields with their default value are
 * omitted.
 */
export const toProtobuf = Effect.fnUntraced(function* (json: string) {
  const request: unknown = JSON.parse(json)
  const resources: Array<Uint8Array> = []
  for (const resource of list(request, "resourceSpans")) {
    const scopes: Array<Uint8Array> = []
    for (const scoped of list(resource, "scopeSpans")) {
      const spans: Array<Uint8Array> = []
      for (const [index, span] of list(scoped, "spans").entries()) {
        if (index % SPANS_PER_SLICE === SPANS_PER_SLICE - 1) yield* Effect.yieldNow
        spans.push(message(2, spanOf(span)))
      }
      const scope = member(scoped, "scope")
      scopes.push(
        message(2, [
          message(1, [text(1, member(scope, "name")), text(2, member(scope, "version"))]),
          ...spans,
          text(3, member(scoped, "schemaUrl"))
        ])
      )
    }
    resources.push(
      message(1, [
        message(1, attributesOf(1, member(resource, "resource"))),
        ...scopes,
        text(3, member(resource, "schemaUrl"))
      ])
    )
  }
  return new Uint8Array(Buffer.concat(resources))
})

const spanOf = (span: unknown): ReadonlyArray<Uint8Array> => [
  id(1, member(span, "traceId")),
  id(2, member(span, "spanId")),
  text(3, member(span, "traceState")),
  id(4, member(span, "parentSpanId")),
  text(5, member(span, "name")),
  integer(6, member(span, "kind")),
  time(7, member(span, "startTimeUnixNano")),
  time(8, member(span, "endTimeUnixNano")),
  ...attributesOf(9, span),
  ...list(span, "events").map((event) =>
    message(11, [
      time(1, member(event, "timeUnixNano")),
      text(2, member(event, "name")),
      ...attributesOf(3, event)
    ])
  ),
  ...list(span, "links").map((link) =>
    message(13, [
      id(1, member(link, "traceId")),
      id(2, member(link, "spanId")),
      flags(6, member(link, "flags"))
    ])
  ),
  ...(member(span, "status") === undefined
    ? []
    : [message(15, [integer(3, member(member(span, "status"), "code"))])]),
  flags(16, member(span, "flags"))
]

const attributesOf = (field: number, owner: unknown): ReadonlyArray<Uint8Array> =>
  list(owner, "attributes").map((attribute) =>
    message(field, [text(1, member(attribute, "key")), message(2, [anyValue(member(attribute, "value"))])])
  )

/** A value has exactly one member. Unlike other fields, it is written also if it is a default. */
const anyValue = (value: unknown): Uint8Array => {
  const string = member(value, "stringValue")
  if (typeof string === "string") return lengthPrefixed(1, Buffer.from(string))
  const boolean = member(value, "boolValue")
  if (typeof boolean === "boolean") return Buffer.concat([tag(2, VARINT), varint(boolean ? 1n : 0n)])
  const int = member(value, "intValue")
  if (typeof int === "string") return Buffer.concat([tag(3, VARINT), varint(BigInt.asUintN(64, BigInt(int)))])
  const double = member(value, "doubleValue")
  if (double !== undefined) {
    const bytes = Buffer.alloc(8)
    bytes.writeDoubleLE(Number(double))
    return Buffer.concat([tag(4, FIXED64), bytes])
  }
  return message(
    5,
    list(member(value, "arrayValue"), "values").map((one) => message(1, [anyValue(one)]))
  )
}

/** Wire types (protobuf.dev, "Encoding"). */
const VARINT = 0
const FIXED64 = 1
const LENGTH_PREFIXED = 2
const FIXED32 = 5

const nothing = new Uint8Array(0)

const varint = (value: bigint): Uint8Array => {
  const bytes: Array<number> = []
  let rest = value
  for (; rest > 0x7fn; rest >>= 7n) bytes.push(Number(rest & 0x7fn) | 0x80)
  bytes.push(Number(rest))
  return Uint8Array.from(bytes)
}

const tag = (field: number, wireType: number): Uint8Array => varint(BigInt(field * 8 + wireType))

const lengthPrefixed = (field: number, bytes: Uint8Array): Uint8Array =>
  Buffer.concat([tag(field, LENGTH_PREFIXED), varint(BigInt(bytes.length)), bytes])

const message = (field: number, fields: ReadonlyArray<Uint8Array>): Uint8Array =>
  lengthPrefixed(field, Buffer.concat(fields))

const text = (field: number, value: unknown): Uint8Array =>
  typeof value === "string" && value !== "" ? lengthPrefixed(field, Buffer.from(value)) : nothing

/** An identifier in hex. */
const id = (field: number, value: unknown): Uint8Array =>
  typeof value === "string" && value !== "" ? lengthPrefixed(field, Buffer.from(value, "hex")) : nothing

const integer = (field: number, value: unknown): Uint8Array =>
  typeof value === "number" && value !== 0
    ? Buffer.concat([tag(field, VARINT), varint(BigInt(value))])
    : nothing

const time = (field: number, value: unknown): Uint8Array => {
  if (typeof value !== "string" || value === "0") return nothing
  const bytes = Buffer.alloc(8)
  bytes.writeBigUInt64LE(BigInt(value))
  return Buffer.concat([tag(field, FIXED64), bytes])
}

const flags = (field: number, value: unknown): Uint8Array => {
  if (typeof value !== "number" || value === 0) return nothing
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32LE(value)
  return Buffer.concat([tag(field, FIXED32), bytes])
}

const member = (value: unknown, name: string): unknown =>
  Predicate.hasProperty(value, name) ? value[name] : undefined

const list = (value: unknown, name: string): ReadonlyArray<unknown> => {
  const found = member(value, name)
  return Array.isArray(found) ? found : []
}
