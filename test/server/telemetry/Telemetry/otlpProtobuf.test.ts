import { SpanKind, SpanStatusCode, TraceFlags } from "@opentelemetry/api"
import { ProtobufTraceSerializer } from "@opentelemetry/otlp-transformer"
import type { ReadableSpan } from "@opentelemetry/sdk-trace"
import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { toProtobuf } from "../../../../src/server/telemetry/Telemetry/otlpProtobuf.ts"

const trace_id = "0af7651916cd43dd8448eb211c80319c"
const span_id = "b7ad6b7169203331"
const parent = "b7ad6b7169203332"

const request = {
  resourceSpans: [
    {
      resource: { attributes: [{ key: "service.name", value: { stringValue: "countersign" } }] },
      scopeSpans: [
        {
          scope: { name: "countersign", version: "1" },
          spans: [
            {
              traceId: trace_id,
              spanId: span_id,
              parentSpanId: parent,
              flags: 0x101,
              kind: 3,
              name: "chat small",
              startTimeUnixNano: "1795228385001000000",
              endTimeUnixNano: "1795228385002000000",
              attributes: [
                { key: "s", value: { stringValue: "ü" } },
                { key: "b", value: { boolValue: false } },
                { key: "i", value: { intValue: "-7" } },
                { key: "d", value: { doubleValue: 0.25 } },
                { key: "l", value: { arrayValue: { values: [{ stringValue: "a" }, { stringValue: "b" }] } } }
              ],
              status: { code: 2 }
            }
          ],
          schemaUrl: "https://x"
        }
      ]
    }
  ]
}

/** The same span as an object of the SDK. */
const readable: ReadableSpan = {
  name: "chat small",
  kind: SpanKind.CLIENT,
  spanContext: () => ({ traceId: trace_id, spanId: span_id, traceFlags: TraceFlags.SAMPLED }),
  parentSpanContext: { traceId: trace_id, spanId: parent, traceFlags: TraceFlags.SAMPLED },
  startTime: [1_795_228_385, 1_000_000],
  endTime: [1_795_228_385, 2_000_000],
  status: { code: SpanStatusCode.ERROR },
  attributes: { s: "ü", b: false, i: -7, d: 0.25, l: ["a", "b"] },
  links: [],
  events: [],
  duration: [0, 0],
  ended: true,
  resource: {
    attributes: { "service.name": "countersign" },
    merge: () => assert.fail("is not merged"),
    getRawAttributes: () => []
  },
  instrumentationScope: { name: "countersign", version: "1", schemaUrl: "https://x" },
  droppedAttributesCount: 0,
  droppedEventsCount: 0,
  droppedLinksCount: 0
}

/** The numbers of `dropped_…_count`, which the SDK writes although they are 0: in a resource, and in a span. */
const DROPPED = ["1000", "5000", "6000", "7000"]

it.effect(
  "a request is translated to the bytes that OpenTelemetry's own encoder writes, without its zeros",
  () =>
    Effect.gen(function* () {
      const ours = Buffer.from(yield* toProtobuf(JSON.stringify(request))).toString("hex")
      const theirs = Buffer.from(ProtobufTraceSerializer.serializeRequest([readable]) ?? []).toString("hex")
      // Their lengths of the request, resource, scope and span include the zeros.
      const withoutZeros = theirs
        .replace(/^0ae5010a21/, "0add010a1f")
        .replace(`${DROPPED[0]}12bf01`, "12b901")
        .replace("129f010a10", "1299010a10")
        .replace(`5000`, "")
        .replace(`60007000`, "")
      assert.strictEqual(ours, withoutZeros)
    })
)
