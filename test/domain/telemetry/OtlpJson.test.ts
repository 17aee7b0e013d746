import { SpanKind as ApiKind, SpanStatusCode, TraceFlags, createTraceState } from "@opentelemetry/api"
import { JsonTraceSerializer } from "@opentelemetry/otlp-transformer"
import type { ReadableSpan } from "@opentelemetry/sdk-trace"
import { assert, describe, it } from "@effect/vitest"
import fc from "fast-check"
import { OrgId, TraceId } from "../../../src/domain/Ids.ts"
import { encodeSpan, envelope } from "../../../src/domain/telemetry/OtlpJson.ts"
import {
  type Attributes,
  type AttributeValue,
  type Span,
  SpanId
} from "../../../src/domain/telemetry/Span.ts"
import { exportSource } from "../../../src/domain/telemetry/SpanConventions.ts"
import { readRequest } from "../../support/otlp/validate.ts"

const source = exportSource(OrgId.make("org_0192f0c1a2b37c4d8e5f60718293a4b5"))
const frame = envelope(source)
/** A name that is cached, since the frame has it; the random names of properties soon fill the cache. */
const cachedName = "service.name"

const hex = (digits: number) =>
  fc
    .array(fc.constantFrom(...Array.from("0123456789abcdef")), { minLength: digits, maxLength: digits })
    .map((all) => all.join(""))
    .filter((id) => !/^0+$/.test(id))
const traceIds = hex(32).map((id) => TraceId.make(id))
const spanIds = hex(16).map((id) => SpanId.make(id))

const text = fc.string({ unit: "binary" })
/** The SDK writes every whole number as an integer, so doubles are fractions on both sides. */
const fraction = fc
  .double({ noNaN: true, noDefaultInfinity: true })
  .filter((value) => !Number.isInteger(value))
const values: fc.Arbitrary<AttributeValue> = fc.oneof(
  text,
  fc.boolean(),
  fc.maxSafeInteger(),
  fraction.map((double) => ({ double })),
  fc.array(text, { maxLength: 3 })
)
const attributes: fc.Arbitrary<Attributes> = fc
  .array(fc.tuple(fc.stringMatching(/^[a-z][a-z._]{0,20}$/), values), { maxLength: 6 })
  .map((entries) => Object.fromEntries(entries))

/** Milliseconds of the years 1970 to 2100. */
const times = fc.integer({ min: 1, max: 4_102_444_800_000 })

const spans: fc.Arbitrary<Span> = fc
  .record({
    trace_id: traceIds,
    span_id: spanIds,
    parent_span_id: fc.option(spanIds),
    name: text.filter((name) => name !== ""),
    kind: fc.constantFrom("internal" as const, "server" as const, "client" as const),
    start: times,
    lasts: fc.nat({ max: 1_000_000 }),
    attributes,
    events: fc.array(fc.record({ name: text, at: times, attributes }), { maxLength: 2 }),
    links: fc.array(fc.record({ trace_id: traceIds, span_id: spanIds }), { maxLength: 2 }),
    failed: fc.boolean()
  })
  .map(({ lasts, ...span }) => ({ ...span, end: span.start + lasts }))

const hrTime = (millis: number): [number, number] => [Math.floor(millis / 1000), (millis % 1000) * 1_000_000]

const plain = (given: Attributes): ReadableSpan["attributes"] =>
  Object.fromEntries(
    Object.entries(given).map(([name, value]) => [
      name,
      typeof value === "object" && "double" in value
        ? value.double
        : Array.isArray(value)
          ? [...value]
          : value
    ])
  )

const kinds = { internal: ApiKind.INTERNAL, server: ApiKind.SERVER, client: ApiKind.CLIENT }

/** The same span as an SDK object. */
const readable = (span: Span): ReadableSpan => ({
  name: span.name,
  kind: kinds[span.kind],
  spanContext: () => ({
    traceId: span.trace_id,
    spanId: span.span_id,
    traceFlags: TraceFlags.SAMPLED,
    traceState: createTraceState("ot=th:8")
  }),
  ...(span.parent_span_id === null
    ? {}
    : {
        parentSpanContext: {
          traceId: span.trace_id,
          spanId: span.parent_span_id,
          traceFlags: TraceFlags.SAMPLED
        }
      }),
  startTime: hrTime(span.start),
  endTime: hrTime(span.end),
  status: { code: span.failed === true ? SpanStatusCode.ERROR : SpanStatusCode.UNSET },
  attributes: plain(span.attributes),
  links: (span.links ?? []).map((link) => ({
    context: { traceId: link.trace_id, spanId: link.span_id, traceFlags: 0, isRemote: true }
  })),
  events: (span.events ?? []).map((event) => ({
    name: event.name,
    time: hrTime(event.at),
    attributes: plain(event.attributes),
    droppedAttributesCount: 0
  })),
  duration: [0, 0],
  ended: true,
  resource: {
    attributes: plain(source.resource),
    merge: () => assert.fail("is not merged"),
    getRawAttributes: () => []
  },
  instrumentationScope: { ...source.scope, schemaUrl: source.schemaUrl },
  droppedAttributesCount: 0,
  droppedEventsCount: 0,
  droppedLinksCount: 0
})

/** Normalizes differences without meaning: the order of fields, defaults, integers as numbers. */
const normalize = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(normalize)
  if (typeof value !== "object" || value === null) return value
  const fields: Array<[string, unknown]> = []
  for (const [name, inner] of Object.entries(value)) {
    if (name === "intValue") fields.push([name, String(inner)])
    // Only our encoder sets the flag that the trace id is random (W3C Trace Context Level 2).
    else if (name === "flags") fields.push([name, Number(inner) & ~0b10])
    else if (inner === 0 && (name.startsWith("dropped") || name === "code")) continue
    else if (Array.isArray(inner) && inner.length === 0) continue
    else fields.push([name, normalize(inner)])
  }
  return Object.fromEntries(
    fields
      .filter(([name, inner]) => !(name === "status" && JSON.stringify(inner) === "{}"))
      .toSorted(([a], [b]) => (a < b ? -1 : 1))
  )
}

/** The one resource of a request, normalized. */
const resourceSpansOf = (request: unknown): object => {
  const all = normalize(request)
  const list: unknown =
    typeof all === "object" && all !== null && "resourceSpans" in all ? all.resourceSpans : []
  const one: unknown = Array.isArray(list) && list.length === 1 ? list[0] : undefined
  return typeof one === "object" && one !== null ? one : assert.fail("one resource")
}

const encodeOurs = (list: ReadonlyArray<Span>, traceState = "ot=th:8") =>
  frame[0] + list.map((span) => encodeSpan(span, traceState)).join(",") + frame[1]

const base = {
  trace_id: TraceId.make("0af7651916cd43dd8448eb211c80319c"),
  span_id: SpanId.make("b7ad6b7169203331"),
  parent_span_id: null
}

describe("OtlpJson", () => {
  it("encodes any spans like OpenTelemetry's own encoder", () => {
    fc.assert(
      fc.property(fc.array(spans, { minLength: 1, maxLength: 4 }), (list) => {
        const [first] = list
        if (first === undefined) return
        const resource = readable(first).resource
        const sdk = JsonTraceSerializer.serializeRequest(
          list.map((span) => ({ ...readable(span), resource }))
        )
        const theirs: unknown = JSON.parse(new TextDecoder().decode(sdk))
        const they = resourceSpansOf(theirs)
        const we = resourceSpansOf(JSON.parse(encodeOurs(list)))
        // The SDK's resource has no schema URL without detected attributes; ours has the scope's.
        assert.deepStrictEqual({ ...they, schemaUrl: source.schemaUrl }, { ...we })
      })
    )
  })

  it("conforms to a strict reading of the specification for any span", () => {
    fc.assert(
      fc.property(fc.array(spans, { minLength: 1, maxLength: 4 }), (list) => {
        const read = readRequest(encodeOurs(list, "ot=th:0"))
        assert.lengthOf(read, list.length)
        for (const [index, span] of list.entries()) {
          const found = read[index]
          assert.strictEqual(found?.traceId, span.trace_id)
          assert.strictEqual(found?.parentSpanId, span.parent_span_id ?? undefined)
          assert.deepStrictEqual([found?.startMillis, found?.endMillis], [span.start, span.end])
          assert.strictEqual(found?.traceState, "ot=th:0")
        }
      })
    )
  })

  const one = (attributes: Attributes, more: Partial<Span> = {}) => {
    const [span] = readRequest(
      encodeOurs(
        [
          {
            trace_id: TraceId.make("0123456789abcdef0123456789abcdef"),
            span_id: SpanId.make("0123456789abcdef"),
            parent_span_id: null,
            name: "a",
            kind: "internal",
            start: 1_795_228_385_123,
            end: 1_795_228_385_124,
            attributes,
            ...more
          }
        ],
        "ot=th:0"
      )
    )
    return span ?? assert.fail("a span")
  }

  it("distinguishes integers from fractions and omits undefined attributes", () => {
    const span = one({ tokens: 9_007_199_254_740_991, score: { double: -1 }, none: undefined, big: 2 ** 60 })
    assert.deepStrictEqual(span.attributes, {
      tokens: 9_007_199_254_740_991n,
      score: -1,
      // An integer that a double cannot represent exactly is not an integer.
      big: 2 ** 60
    })
    assert.deepStrictEqual(one({ odd: { double: Number.NaN } }).attributes, { odd: Number.NaN })
  })

  it("writes ill-formed Unicode so that a receiver can read it", () => {
    assert.deepStrictEqual(one({ text: "a\ud800b" }, { name: "\udfff" }).attributes, { text: "a\ufffdb" })
  })

  it("writes ASCII that decodes to the original text in any script", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), (text) => {
        const said = encodeOurs([
          {
            trace_id: TraceId.make("0af7651916cd43dd8448eb211c80319c"),
            span_id: SpanId.make("b7ad6b7169203331"),
            parent_span_id: null,
            name: "n",
            kind: "internal",
            start: 1,
            end: 2,
            attributes: { [`key ${text}`]: text }
          }
        ])
        assert.match(said, /^[ -~]*$/)
        const [span] = readRequest(said)
        assert.deepStrictEqual(span?.attributes, { [`key ${text}`.toWellFormed()]: text.toWellFormed() })
      })
    )
  })

  it("encodes a name, a kind, a time or a value that follows another or repeats it", () => {
    const value = fc.constantFrom<AttributeValue>("a", "b", 7, 'quoted "c"', true)
    fc.assert(
      fc.property(
        // Two of each, so that most lists have each repetition and change.
        fc.array(
          fc.record({
            name: fc.constantFrom("n", "ü"),
            kind: fc.constantFrom("internal", "server"),
            start: fc.constantFrom(5, 6),
            value: fc.oneof({ weight: 4, arbitrary: fc.constantFrom("a", "b") }, value)
          }),
          { minLength: 1, maxLength: 8 }
        ),
        (list) => {
          const said: unknown = JSON.parse(
            `[${list.map(({ value, ...span }) => encodeSpan({ ...base, ...span, end: 7, attributes: { [cachedName]: value } }, "")).join(",")}]`
          )
          const number = { internal: 1, server: 2 }
          assert.deepStrictEqual(
            said,
            list.map(({ kind, name, start, value }) => ({
              traceId: base.trace_id,
              spanId: base.span_id,
              flags: 0x103,
              kind: number[kind],
              name,
              startTimeUnixNano: `${start}000000`,
              endTimeUnixNano: "7000000",
              attributes: [
                {
                  key: cachedName,
                  value:
                    typeof value === "string"
                      ? { stringValue: value }
                      : typeof value === "boolean"
                        ? { boolValue: value }
                        : { intValue: JSON.stringify(value) }
                }
              ]
            }))
          )
        }
      )
    )
  })

  it("never ends a span before it starts", () => {
    assert.strictEqual(one({}, { end: 5 }).endMillis, 1_795_228_385_123)
  })
})
