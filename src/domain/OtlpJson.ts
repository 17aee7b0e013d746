/**
 * Spans as OTLP/HTTP carries them in JSON: OpenTelemetry Protocol 1.x, "JSON Protobuf Encoding", and `trace.proto` and
 * `common.proto` of opentelemetry-proto 1.11. Identifiers are lowercase hex and not base64, enumerations integers, 64-bit
 * integers decimal strings, names lowerCamelCase; what has its default value is left out.
 *
 * A span is written by hand, as text: that takes a third of the time of building an object and turning it into text, and its
 * size is known as soon as it is made.
 */
import type { Attributes, AttributeValue, Span, SpanEvent, SpanKind, SpanLink } from "./Span.ts"

/** `Span.SpanKind` of trace.proto. */
const kinds: Readonly<Record<SpanKind, number>> = { internal: 1, server: 2, client: 3 }

/** `Status.StatusCode.STATUS_CODE_ERROR`. */
const STATUS_ERROR = 2

/**
 * `Span.flags`: sampled (bit 0), a trace id whose last 56 bits are random (bit 1; W3C Trace Context Level 2), and that it is
 * known of the parent that it is not remote (bit 8; `SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK`).
 */
const FLAGS = 0b11 | 0x100

/** `Span.Link.flags`: the caller's span is known to be remote (bits 8 and 9). */
const LINK_FLAGS = 0x300

/** Printable ASCII but for the quote and the backslash: what JSON writes as it is. */
const PLAIN = /^[ !#-[\]-~]*$/

/** A string in JSON. Nearly all are plain, and a test is a third of the cost of looking for what to escape. */
const quoted = (text: string): string =>
  PLAIN.test(text) ? `"${text}"` : JSON.stringify(text.toWellFormed())

const textOf = (value: AttributeValue): string => {
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
        : `{"arrayValue":{"values":[${value.map(textOf).join(",")}]}}`
  }
}

/** What is no number in JSON is one of three names there (Protobuf, "ProtoJSON Format"). */
const doubleOf = (value: number): string =>
  Number.isFinite(value) ? `{"doubleValue":${value}}` : `{"doubleValue":"${value}"}`

const attributesOf = (attributes: Attributes): string => {
  let text = ""
  for (const name in attributes) {
    const value = attributes[name]
    if (value === undefined) continue
    text += `${text === "" ? "" : ","}{"key":${quoted(name)},"value":${textOf(value)}}`
  }
  return text
}

const eventOf = (event: SpanEvent): string =>
  `{"timeUnixNano":"${nanoseconds(event.at)}","name":${quoted(event.name)},"attributes":[${attributesOf(event.attributes)}]}`

const linkOf = (link: SpanLink): string =>
  `{"traceId":"${link.trace_id}","spanId":"${link.span_id}","flags":${LINK_FLAGS}}`

/** Milliseconds since the epoch as nanoseconds, which are more than a double holds. */
const nanoseconds = (millis: number): string => (millis > 0 ? `${Math.floor(millis)}000000` : "0")

/** One span. `traceState` is that of W3C Trace Context, in its text form. */
export const encodeSpan = (span: Span, traceState: string): string => {
  const parent = span.parent_span_id === null ? "" : `,"parentSpanId":"${span.parent_span_id}"`
  const events = span.events === undefined ? "" : `,"events":[${span.events.map(eventOf).join(",")}]`
  const links = span.links === undefined ? "" : `,"links":[${span.links.map(linkOf).join(",")}]`
  const status = span.failed === true ? `,"status":{"code":${STATUS_ERROR}}` : ""
  return (
    `{"traceId":"${span.trace_id}","spanId":"${span.span_id}","traceState":"${traceState}"${parent},"flags":${FLAGS}` +
    `,"name":${quoted(span.name)},"kind":${kinds[span.kind]}` +
    `,"startTimeUnixNano":"${nanoseconds(span.start)}","endTimeUnixNano":"${nanoseconds(Math.max(span.start, span.end))}"` +
    `,"attributes":[${attributesOf(span.attributes)}]${events}${links}${status}}`
  )
}

/** Who exports, and by which version of the conventions. */
export interface Source {
  readonly resource: Attributes
  readonly scope: { readonly name: string; readonly version: string }
  /** The conventions that the attributes follow. */
  readonly schemaUrl: string
}

/** The text before the spans of a request and the text behind them: an `ExportTraceServiceRequest` with one resource and one scope. */
export const envelope = ({ resource, schemaUrl, scope }: Source): readonly [string, string] => {
  const schema = JSON.stringify(schemaUrl)
  return [
    `{"resourceSpans":[{"resource":{"attributes":[${attributesOf(resource)}]},"scopeSpans":[{"scope":{"name":${JSON.stringify(scope.name)},"version":${JSON.stringify(scope.version)}},"spans":[`,
    `],"schemaUrl":${schema}}],"schemaUrl":${schema}}]}`
  ]
}

/** A request out of its envelope and the texts of spans, one at least: senders should send no request without any. */
export const encodeRequest = (
  [before, after]: readonly [string, string],
  spans: ReadonlyArray<string>
): string => before + spans.join(",") + after
