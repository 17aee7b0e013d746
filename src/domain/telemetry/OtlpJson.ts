/**
 * Encodes spans for OTLP/HTTP in JSON: OpenTelemetry Protocol 1.x, "JSON Protobuf Encoding", with `trace.proto` and `common.proto` of
 * opentelemetry-proto 1.11. Identifiers are lowercase hex and not base64, enumerations are integers, 64-bit integers are decimal strings,
 * names are lowerCamelCase; fields with their default value are omitted.
 *
 * Spans are concatenated by hand from cached pieces: attribute names with their punctuation, and repeated values, which most of an agent's
 * are. The pieces form a rope that is flattened once, with the request. Everything is ASCII, so the length in characters is the length in
 * bytes.
 */
import type { Schema } from "effect"
import type { TraceId } from "../Ids.ts"
import type { Attributes, AttributeValue, Span, SpanEvent, SpanId, SpanKind, SpanLink } from "./Span.ts"

/**
 * `Span.flags`: sampled (bit 0), a trace id whose last 56 bits are random (bit 1; W3C Trace Context Level 2), and a parent that is known
 * not to be remote (bit 8; `SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK`).
 */
const FLAGS = 0b11 | 0x100

/** `SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK` and `SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK`. */
const HAS_IS_REMOTE = 0x100
const IS_REMOTE = 0x200

const flagsOf = ({ joined }: Span): number =>
  joined === undefined
    ? FLAGS
    : (joined.flags & 0xff) | HAS_IS_REMOTE | (joined.isParentRemote ? IS_REMOTE : 0)

/** Whether `Span.flags` say that the parent is a span of another service. */
export const isParentRemote = (flags: number): boolean => (flags & IS_REMOTE) !== 0

/** `Span.SpanKind` of trace.proto. */
const KINDS: Readonly<Record<SpanKind, number>> = { internal: 1, server: 2, client: 3 }

/** The end of a failed span: `Status.StatusCode.STATUS_CODE_ERROR`. */
const FAILED = `,"status":{"code":2}}`

/** `Span.Link.flags`: the caller's span is known to be remote (bits 8 and 9). */
const LINK_FLAGS = 0x300

/** Printable ASCII except the quote and the backslash: characters that JSON needs no escape for. */
const PLAIN = /^[ !#-[\]-~]*$/

/** One UTF-16 unit beyond printable ASCII. */
const BEYOND_ASCII = /[^ -~]/g

const escapeUnit = (unit: string): string => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`

/** Encodes a string. Nearly all strings are plain, and this test costs a third of a search for characters to escape. */
const quote = (text: string): string =>
  PLAIN.test(text) ? `"${text}"` : JSON.stringify(text.toWellFormed()).replace(BEYOND_ASCII, escapeUnit)

const valueOf = (value: AttributeValue): string => {
  switch (typeof value) {
    case "string":
      return `{"stringValue":${quote(value)}}`
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

/** A number that is not finite is one of three strings (Protobuf, "ProtoJSON Format"). */
const doubleOf = (value: number): string =>
  Number.isFinite(value) ? `{"doubleValue":${value}}` : `{"doubleValue":"${value}"}`

/** A cached attribute: its name and its latest value. */
interface CachedAttribute {
  /** The text from the preceding comma to the value. */
  readonly before: string
  /** The text from the preceding comma to the digits of an integer. */
  readonly beforeInt: string
  /** The text from the preceding comma to the characters of a string. */
  readonly beforeString: string
  value: AttributeValue | undefined
  /** The whole attribute with the cached value; undefined until the value is repeated, since a value such as an id may never be. */
  text: string | undefined
}

/** Maximum number of cached names. Some forty exist: the conventions' and the service's own. */
const MAX_KNOWN = 256

/** Maximum length of a cached value, in characters: an id or a name, never free text. */
const MAX_REMEMBERED = 64

const cachedAttributes = new Map<string, CachedAttribute>()

const cachedAttribute = (name: string): CachedAttribute => {
  const found = cachedAttributes.get(name)
  if (found !== undefined) return found
  const before = flat([`,{"key":`, quote(name), `,"value":`])
  const attribute: CachedAttribute = {
    before,
    beforeInt: flat([before, `{"intValue":"`]),
    beforeString: flat([before, `{"stringValue":"`]),
    value: undefined,
    text: undefined
  }
  if (cachedAttributes.size < MAX_KNOWN) cachedAttributes.set(name, attribute)
  return attribute
}

/** Joins pieces into one flat string, which later concatenations copy as a unit. */
const flat = (pieces: ReadonlyArray<string>): string => pieces.join("")

/** Encodes an attribute with a preceding comma. */
const attributeOf = (name: string, value: AttributeValue): string => {
  const attribute = cachedAttribute(name)
  if (attribute.value === value) return (attribute.text ??= flat([attribute.before, valueOf(value), "}"]))
  if (typeof value === "number" && Number.isSafeInteger(value))
    return attribute.beforeInt + String(value) + `"}}`
  if (typeof value === "string" && value.length <= MAX_REMEMBERED) {
    attribute.value = value
    attribute.text = undefined
    if (PLAIN.test(value)) return attribute.beforeString + value + `"}}`
  }
  return attribute.before + valueOf(value) + "}"
}

/** Encodes attributes as an array. */
const attributesOf = (attributes: Attributes): string => {
  let text = ""
  for (const name in attributes) {
    const value = attributes[name]
    if (value === undefined) continue
    const attribute = attributeOf(name, value)
    text += text === "" ? attribute.slice(1) : attribute
  }
  return `[${text}]`
}

const eventOf = (event: SpanEvent): string =>
  `{"timeUnixNano":"${nanoseconds(event.at)}","name":${quote(event.name)},"attributes":${attributesOf(event.attributes)}}`

const linkOf = (link: SpanLink): string =>
  `{"traceId":"${link.trace_id}","spanId":"${link.span_id}","flags":${LINK_FLAGS}}`

let lastMillis = 0
let lastNanos = "0"

/**
 * Converts milliseconds since the epoch to nanoseconds, which exceed the precision of a double. Consecutive spans of the same millisecond
 * share the text.
 */
const nanoseconds = (millis: number): string => {
  if (millis !== lastMillis) {
    lastMillis = millis
    lastNanos = millis > 0 ? `${Math.floor(millis)}000000` : "0"
  }
  return lastNanos
}

let lastState = ""
let lastFlags = 0
let lastKind: SpanKind = "internal"
let lastName = ""
let lastMiddle = ""

/** The text from the ids to the start time. Consecutive spans mostly have the same name. */
const middleOf = (traceState: string, span: Span): string => {
  const { kind, name } = span
  const flags = flagsOf(span)
  if (
    lastMiddle === "" ||
    name !== lastName ||
    kind !== lastKind ||
    traceState !== lastState ||
    flags !== lastFlags
  ) {
    lastState = traceState
    lastFlags = flags
    lastKind = kind
    lastName = name
    lastMiddle = flat([
      `"${traceState === "" ? "" : `,"traceState":"${traceState}"`},"flags":${flags},"kind":${KINDS[kind]},"name":`,
      quote(name),
      `,"startTimeUnixNano":"`
    ])
  }
  return lastMiddle
}

/**
 * Encodes one span, in ASCII. `traceState` is the W3C Trace Context member in its text form. A span in a trace that another service began
 * has none: its sampling threshold is not known here.
 */
export const encodeSpan = (span: Span, traceState: string): string => {
  let text = `{"traceId":"` + span.trace_id + `","spanId":"` + span.span_id
  if (span.parent_span_id !== null) text += `","parentSpanId":"` + span.parent_span_id
  text += middleOf(span.joined === undefined ? traceState : "", span) + nanoseconds(span.start)
  text += `","endTimeUnixNano":"` + nanoseconds(Math.max(span.start, span.end))
  text += `","attributes":` + attributesOf(span.attributes)
  if (span.events !== undefined) text += `,"events":[${span.events.map(eventOf).join(",")}]`
  if (span.links !== undefined) text += `,"links":[${span.links.map(linkOf).join(",")}]`
  return text + (span.failed === true ? FAILED : "}")
}

/** An event that is exported as a log record: OpenTelemetry's events are log records with a name. */
export interface EventRecord {
  readonly name: string
  /** In whole milliseconds since the epoch. */
  readonly at: number
  /** The span that the event is about. */
  readonly trace_id: TraceId
  readonly span_id: SpanId
  /** The W3C trace flags of that span's trace. */
  readonly flags: number
  readonly attributes: Attributes
}

/** `SeverityNumber.SEVERITY_NUMBER_INFO` of logs.proto. */
const INFO = 9

/** Encodes an event as a `LogRecord`, in ASCII (`logs.proto`). */
export const encodeEvent = (event: EventRecord): string => {
  const at = nanoseconds(event.at)
  return (
    `{"timeUnixNano":"${at}","observedTimeUnixNano":"${at}","severityNumber":${INFO},"eventName":${quote(event.name)},` +
    `"attributes":${attributesOf(event.attributes)},"flags":${event.flags & 0xff},` +
    `"traceId":"${event.trace_id}","spanId":"${event.span_id}"}`
  )
}

/** Encodes JSON in ASCII, for requests that are not OTLP. */
export const encodeAscii = (value: Schema.Json): string =>
  JSON.stringify(value).replace(BEYOND_ASCII, escapeUnit)

/** The exporting service and the version of its conventions. */
export interface ExportSource {
  readonly resource: Attributes
  readonly scope: { readonly name: string; readonly version: string }
  /** The conventions that the attributes follow. */
  readonly schemaUrl: string
}

/**
 * Returns the text before and after the spans of a request, an `ExportTraceServiceRequest` with one resource and one scope, or before and
 * after the log records of an `ExportLogsServiceRequest`.
 */
export const envelope = (
  { resource, schemaUrl, scope }: ExportSource,
  records: "spans" | "logRecords" = "spans"
): readonly [string, string] => {
  const schema = quote(schemaUrl)
  const kind = records === "spans" ? "Spans" : "Logs"
  return [
    `{"resource${kind}":[{"resource":{"attributes":${attributesOf(resource)}},"scope${kind}":[{"scope":{"name":${quote(scope.name)},"version":${quote(scope.version)}},"${records}":[`,
    `],"schemaUrl":${schema}}],"schemaUrl":${schema}}]}`
  ]
}
