/**
 * Spans as OTLP/HTTP carries them in JSON: OpenTelemetry Protocol 1.x, "JSON Protobuf Encoding", and `trace.proto` and
 * `common.proto` of opentelemetry-proto 1.11. Identifiers are lowercase hex and not base64, enumerations integers, 64-bit
 * integers decimal strings, names lowerCamelCase; what has its default value is left out.
 *
 * A span is written by hand, as text, out of pieces that are made once: the names of attributes with what stands around them, and values
 * that come again, as most of an agent's do. The pieces are only added up: they are laid out in memory once, with the request. All of it is
 * ASCII, so that its length is its bytes.
 */
import type { Attributes, AttributeValue, Span, SpanEvent, SpanKind, SpanLink } from "./Span.ts"

/**
 * `Span.flags`: sampled (bit 0), a trace id whose last 56 bits are random (bit 1; W3C Trace Context Level 2), and that it is
 * known of the parent that it is not remote (bit 8; `SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK`).
 */
const FLAGS = 0b11 | 0x100

/** The flags and the kind (`Span.SpanKind` of trace.proto), from the id before them to the name behind them. */
const KINDS: Readonly<Record<SpanKind, string>> = {
  internal: `","flags":${FLAGS},"kind":1,"name":`,
  server: `","flags":${FLAGS},"kind":2,"name":`,
  client: `","flags":${FLAGS},"kind":3,"name":`
}

/** The end of a span that failed: `Status.StatusCode.STATUS_CODE_ERROR`. */
const FAILED = `,"status":{"code":2}}`

/** `Span.Link.flags`: the caller's span is known to be remote (bits 8 and 9). */
const LINK_FLAGS = 0x300

/** Printable ASCII but for the quote and the backslash: what JSON writes as it is. */
const PLAIN = /^[ !#-[\]-~]*$/

/** What JSON may hold as it is and ASCII does not, one UTF-16 unit at a time. */
const BEYOND_ASCII = /[^ -~]/g

const escaped = (unit: string): string => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`

/** A string in JSON. Nearly all are plain, and a test is a third of the cost of looking for what to escape. */
const quoted = (text: string): string =>
  PLAIN.test(text) ? `"${text}"` : JSON.stringify(text.toWellFormed()).replace(BEYOND_ASCII, escaped)

const valueOf = (value: AttributeValue): string => {
  switch (typeof value) {
    case "string":
      return `{"stringValue":${quoted(value)}}`
    case "boolean":
      return value ? `{"boolValue":true}` : `{"boolValue":false}`
    case "number":
      return Number.isSafeInteger(value) ? `{"intValue":"${value}"}` : doubleOf(value)
    default:
      return "double" in value
        ? doubleOf(value.double)
        : `{"arrayValue":{"values":[${value.map(valueOf).join(",")}]}}`
  }
}

/** What is no number in JSON is one of three names there (Protobuf, "ProtoJSON Format"). */
const doubleOf = (value: number): string =>
  Number.isFinite(value) ? `{"doubleValue":${value}}` : `{"doubleValue":"${value}"}`

/** An attribute's name, and the value that it had last. */
interface Known {
  /** From the comma before it to the value. */
  readonly before: string
  /** The same, to the digits of a whole number. */
  readonly beforeInt: string
  value: AttributeValue | undefined
  /** The whole attribute with that value. */
  text: string
}

/** Names that are remembered. There are some forty, since they are the conventions' and ours. */
const MAX_KNOWN = 256

/** Values that are remembered, in characters: an id or a name, never what somebody wrote. */
const MAX_REMEMBERED = 64

const known = new Map<string, Known>()

const knownOf = (name: string): Known => {
  const found = known.get(name)
  if (found !== undefined) return found
  const before = flat([`,{"key":`, quoted(name), `,"value":`])
  const made: Known = { before, beforeInt: flat([before, `{"intValue":"`]), value: undefined, text: "" }
  if (known.size < MAX_KNOWN) known.set(name, made)
  return made
}

/** One string that is laid out in memory as one, and is copied as such wherever it is put in. */
const flat = (pieces: ReadonlyArray<string>): string => pieces.join("")

/** An attribute, with a comma before it. */
const attributeOf = (name: string, value: AttributeValue): string => {
  const one = knownOf(name)
  if (one.value === value) return one.text
  if (typeof value === "string" && value.length <= MAX_REMEMBERED) {
    one.value = value
    one.text = flat([one.before, valueOf(value), "}"])
    return one.text
  }
  if (typeof value === "number" && Number.isSafeInteger(value)) return one.beforeInt + String(value) + `"}}`
  return one.before + valueOf(value) + "}"
}

/** Attributes, as an array. */
const attributesOf = (attributes: Attributes): string => {
  let text = ""
  for (const name in attributes) {
    const value = attributes[name]
    if (value === undefined) continue
    const one = attributeOf(name, value)
    text += text === "" ? one.slice(1) : one
  }
  return `[${text}]`
}

const eventOf = (event: SpanEvent): string =>
  `{"timeUnixNano":"${nanoseconds(event.at)}","name":${quoted(event.name)},"attributes":${attributesOf(event.attributes)}}`

const linkOf = (link: SpanLink): string =>
  `{"traceId":"${link.trace_id}","spanId":"${link.span_id}","flags":${LINK_FLAGS}}`

let lastMillis = 0
let lastNanos = "0"

/** Milliseconds since the epoch as nanoseconds, which are more than a double holds. Spans of one moment share the text. */
const nanoseconds = (millis: number): string => {
  if (millis !== lastMillis) {
    lastMillis = millis
    lastNanos = millis > 0 ? `${Math.floor(millis)}000000` : "0"
  }
  return lastNanos
}

/** One span, in ASCII. `traceState` is that of W3C Trace Context, in its text form. */
export const encodeSpan = (span: Span, traceState: string): string => {
  let text = `{"traceId":"` + span.trace_id + `","spanId":"` + span.span_id
  if (span.parent_span_id !== null) text += `","parentSpanId":"` + span.parent_span_id
  text += `","traceState":"` + traceState + KINDS[span.kind] + quoted(span.name)
  text += `,"startTimeUnixNano":"` + nanoseconds(span.start)
  text += `","endTimeUnixNano":"` + nanoseconds(Math.max(span.start, span.end))
  text += `","attributes":` + attributesOf(span.attributes)
  if (span.events !== undefined) text += `,"events":[${span.events.map(eventOf).join(",")}]`
  if (span.links !== undefined) text += `,"links":[${span.links.map(linkOf).join(",")}]`
  return text + (span.failed === true ? FAILED : "}")
}

/** Who exports, and by which version of the conventions. */
export interface ExportSource {
  readonly resource: Attributes
  readonly scope: { readonly name: string; readonly version: string }
  /** The conventions that the attributes follow. */
  readonly schemaUrl: string
}

/** The text before the spans of a request and the text behind them: an `ExportTraceServiceRequest` with one resource and one scope. */
export const envelope = ({ resource, schemaUrl, scope }: ExportSource): readonly [string, string] => {
  const schema = quoted(schemaUrl)
  return [
    `{"resourceSpans":[{"resource":{"attributes":${attributesOf(resource)}},"scopeSpans":[{"scope":{"name":${quoted(scope.name)},"version":${quoted(scope.version)}},"spans":[`,
    `],"schemaUrl":${schema}}],"schemaUrl":${schema}}]}`
  ]
}
