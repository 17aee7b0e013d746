import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import { gunzipSync } from "node:zlib"
import { OrgId, TelemetryDestinationId, TraceId } from "../../../../src/domain/Ids.ts"
import { makeSampling } from "../../../../src/domain/telemetry/SpanSampling.ts"
import {
  type SpanLimits,
  makeSpanBuffer,
  type SpanBuffer
} from "../../../../src/server/telemetry/Spans/SpanBuffer.ts"
import { type Content, TOO_LONG } from "../../../../src/server/telemetry/Spans/Content.ts"
import type { OrgBuffer, RecordedTrace } from "../../../../src/server/telemetry/Spans/OrgBuffer.ts"
import { someSpan } from "../../../support/otlp/telemetry.ts"

const organization = (digit: number) =>
  OrgId.make(`org_${"0".repeat(12)}7${"0".repeat(3)}8${"0".repeat(14)}${digit}`)

let traces = 0
const recordedWith = (content?: Content): RecordedTrace => ({
  trace_id: TraceId.make((++traces).toString(16).padStart(32, "0")),
  count: 1,
  whole: true,
  ...(content === undefined ? {} : { content }),
  make: () => []
})

/** A buffer without limits but for its memory and those that are given, and outboxes in it. */
const bufferWith = (limits: Partial<SpanLimits> = {}) => {
  const buffer = makeSpanBuffer({
    sampling: makeSampling(1),
    queueLimit: 1_000_000,
    spansPerSecond: 1_000_000,
    flushMillis: 1_000,
    ...limits
  })
  const outbox = (digit: number, content: boolean): OrgBuffer => {
    const org_id = organization(digit)
    const destination_id = TelemetryDestinationId.make(`tel_${org_id.slice(4)}`)
    return buffer.open(org_id, { destination_id, content, waiting_spans: 0 }, 0)
  }
  return { buffer, outbox }
}

/** A trace whose randomness is `share` of all there is. */
const traceAt = (share: number) =>
  TraceId.make(
    `${"a".repeat(18)}${Math.floor(share * 2 ** 32)
      .toString(16)
      .padStart(8, "0")}${"0".repeat(6)}`
  )

/** So many spans of a trace, each named. */
const named = (trace_id: TraceId, names: ReadonlyArray<string>, whole = false): RecordedTrace => ({
  trace_id,
  count: names.length,
  whole,
  make: () => names.map((name, index) => ({ ...someSpan(trace_id, index), name }))
})

const Request = Schema.fromJsonString(
  Schema.Struct({
    resourceSpans: Schema.Tuple([
      Schema.Struct({
        scopeSpans: Schema.Tuple([
          Schema.Struct({
            spans: Schema.Array(
              Schema.Struct({ traceId: Schema.String, name: Schema.String, traceState: Schema.String })
            )
          })
        ])
      })
    ])
  })
)
const decodeRequest = Schema.decodeSync(Request)

/** Encodes and closes all there is: the spans of each batch, as they go out, and what was dropped. */
const goingOut = (buffer: SpanBuffer) => {
  while (buffer.unencodedCount() > 0) buffer.encode(1_000, {}, 0, () => true)
  buffer.closeDue(0, true, () => true)
  const { batches, drops } = buffer.takeReady()
  return {
    batches: batches.map(({ request }) => {
      const { resourceSpans } = decodeRequest(gunzipSync(request).toString())
      return resourceSpans[0].scopeSpans[0].spans
    }),
    dropped: [...drops.values()].reduce((sum, spans) => sum + spans, 0)
  }
}

describe("what goes out of what is recorded", () => {
  it("is each trace of a ratio by its id, marked with the threshold; of the others nothing is kept or counted", () => {
    const { buffer, outbox } = bufferWith({ sampling: makeSampling(0.5) })
    const to = outbox(1, false)
    for (let count = 0; count < 100; count++) buffer.admit(to, named(traceAt(count / 100), ["a", "b"]), 0, 0)
    assert.strictEqual(buffer.spanCount(), 100)
    const { batches, dropped } = goingOut(buffer)
    const seen = batches.flat()
    assert.deepStrictEqual(
      seen.map(({ traceId }) => traceId),
      Array.from({ length: 100 }, (_, index) => traceAt(0.5 + Math.floor(index / 2) / 100))
    )
    assert.deepStrictEqual([...new Set(seen.map(({ traceState }) => traceState))], ["ot=th:8"])
    assert.strictEqual(dropped, 0)
  })

  it("is so many spans a second, whole traces, and the rest is counted", () => {
    const { buffer, outbox } = bufferWith({ spansPerSecond: 10 })
    const to = outbox(1, false)
    const record = (count: number, now: number) => {
      const before = buffer.spanCount()
      for (; count > 0; count--) buffer.admit(to, named(traceAt(Math.random()), ["a", "b", "c"]), 0, now)
      return buffer.spanCount() - before
    }
    assert.strictEqual(record(8, 0), 9)
    assert.strictEqual(record(8, 500), 6)
    assert.strictEqual(record(8, 10_500), 9)
    const { batches, dropped } = goingOut(buffer)
    assert.deepStrictEqual([batches.flat().length, dropped], [24, 48])
  })

  for (const first of ["a part", "a whole trace"]) {
    it(`is all of a trace of which ${first} was let in, and nothing of one of which it was kept out`, () => {
      const { buffer, outbox } = bufferWith({ spansPerSecond: 2 })
      const to = outbox(1, false)
      const [admitted, refused] = [traceAt(0.1), traceAt(0.2)]
      const take = (trace_id: TraceId, name: string, now: number) =>
        buffer.admit(to, named(trace_id, [name, name], name === "first" && first === "a whole trace"), 0, now)
      take(admitted, "first", 0)
      take(refused, "first", 0)
      // No room for what is new, but for what goes on; then room for both.
      take(admitted, "second", 0)
      take(refused, "second", 60_000)
      take(refused, "third", 120_000)
      take(admitted, "third", 180_000)
      const { batches, dropped } = goingOut(buffer)
      assert.deepStrictEqual(
        batches.flat().map(({ name, traceId }) => [traceId, name]),
        ["first", "first", "second", "second", "third", "third"].map((name) => [admitted, name])
      )
      assert.strictEqual(dropped, 6)
    })
  }

  it("is in requests of 512 spans at most", () => {
    const { buffer, outbox } = bufferWith()
    const to = outbox(1, false)
    for (let count = 0; count < 513; count++) buffer.admit(to, named(traceAt(count / 513), ["a"]), 0, 0)
    const { batches, dropped } = goingOut(buffer)
    assert.deepStrictEqual([batches.map(({ length }) => length), dropped], [[512, 1], 0])
  })

  it("is without a span that is too large for any request, which alone is dropped and counted", () => {
    const { buffer, outbox } = bufferWith()
    const to = outbox(1, false)
    buffer.admit(to, named(traceAt(0.1), ["before", "x".repeat(2 * 1024 * 1024), "after"]), 0, 0)
    const { batches, dropped } = goingOut(buffer)
    assert.deepStrictEqual(
      batches.flat().map(({ name }) => name),
      ["before", "after"]
    )
    assert.deepStrictEqual([dropped, buffer.spanCount()], [1, 2])
  })
})

describe("traces that wait to be encoded", () => {
  it("hold nothing of their content where it does not go out", () => {
    const { buffer, outbox } = bufferWith()
    buffer.admit(outbox(1, false), recordedWith({ input: "words" }), 0, 0)
    assert.isUndefined(buffer.nextUnencoded()?.recorded.content)
  })

  it("hold their content where it goes out, but for what is too long to", () => {
    const { buffer, outbox } = bufferWith()
    const short = { list: ["words", 1, null, { a: true }] }
    const long = { list: Array.from({ length: 2_000 }, () => "twenty characters...") }
    buffer.admit(outbox(1, true), recordedWith({ input: short, answer: long }), 0, 0)
    assert.deepStrictEqual(buffer.nextUnencoded()?.recorded.content, { input: short, answer: TOO_LONG })
  })

  it("are two hundred of one organization at once, each with as much content as is exported", () => {
    const { buffer, outbox } = bufferWith()
    const to = outbox(1, true)
    const text = "x".repeat(30_000)
    for (let count = 0; count < 200; count++) {
      buffer.admit(to, recordedWith({ input: text, answer: text }), 0, 0)
    }
    assert.deepStrictEqual([buffer.unencodedCount(), to.dropped], [200, 0])
  })

  for (const content of [false, true]) {
    it(`of one organization take half of the room, so that others find some: ${content ? "with" : "without"} content`, () => {
      const { buffer, outbox } = bufferWith()
      const [one, other] = [outbox(1, content), outbox(2, content)]
      const fill = (into: OrgBuffer) => {
        const before = buffer.unencodedCount()
        const text = "x".repeat(30_000)
        while (into.dropped === 0) buffer.admit(into, recordedWith({ input: text, answer: text }), 0, 0)
        return buffer.unencodedCount() - before
      }
      const taken = fill(one)
      assert.strictEqual(taken, content ? 270 : 8_192)
      assert.strictEqual(fill(other), taken)
      // What is encoded leaves its room to others.
      while (buffer.unencodedCount() > 0) buffer.encode(1_000, {}, 0, () => true)
      other.dropped = 0
      assert.strictEqual(fill(other), taken)
    })
  }
})
