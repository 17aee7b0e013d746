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
  OrgId.make(`org_${"0".repeat(12)}7${"0".repeat(3)}8${String(digit).padStart(15, "0")}`)

let traces = 0
const recordedWith = (content?: Content): RecordedTrace => ({
  trace_id: TraceId.make((++traces).toString(16).padStart(32, "0")),
  count: 1,
  whole: true,
  ...(content === undefined ? {} : { content }),
  make: () => []
})

/** A buffer limited only by memory and the given limits, with organizations in it. */
const bufferWith = (limits: Partial<SpanLimits> = {}) => {
  const buffer = makeSpanBuffer({
    sampling: makeSampling(1),
    queueLimit: 1_000_000,
    spansPerSecond: 1_000_000,
    flushMillis: 1_000,
    ...limits
  })
  const orgBuffer = (digit: number, content: boolean, waiting_spans = 0): OrgBuffer => {
    const org_id = organization(digit)
    const destination_id = TelemetryDestinationId.make(`tel_${org_id.slice(4)}`)
    return buffer.open(org_id, { destination_id, content, trace: "own", scores: "span", waiting_spans }, 0)
  }
  return { buffer, orgBuffer }
}

/** A trace id whose random part is `share` of its range. */
const traceAt = (share: number) =>
  TraceId.make(
    `${"a".repeat(18)}${Math.floor(share * 2 ** 32)
      .toString(16)
      .padStart(8, "0")}${"0".repeat(6)}`
  )

/** Named spans of one trace. */
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

/** Encodes and closes everything; returns the spans of each batch and the number of dropped spans. */
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

describe("SpanBuffer › admission", () => {
  it("sampling keeps traces by id and marks them with the threshold; unsampled ones are neither kept nor counted", () => {
    const { buffer, orgBuffer } = bufferWith({ sampling: makeSampling(0.5) })
    const to = orgBuffer(1, false)
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

  it("the rate limit admits whole traces and counts the rest as dropped", () => {
    const { buffer, orgBuffer } = bufferWith({ spansPerSecond: 10 })
    const to = orgBuffer(1, false)
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

  it("a trace that continues on credit delays new ones until it is repaid, by no more than a second's spans", () => {
    const { buffer, orgBuffer } = bufferWith({ spansPerSecond: 10 })
    const to = orgBuffer(1, false)
    const admits = (trace_id: TraceId, spans: number, now: number) => {
      const before = buffer.spanCount()
      buffer.admit(
        to,
        named(
          trace_id,
          Array.from({ length: spans }, () => "a")
        ),
        0,
        now
      )
      return buffer.spanCount() > before
    }
    assert.isTrue(admits(traceAt(0.1), 10, 0))
    assert.isTrue(admits(traceAt(0.1), 5, 0))
    assert.isFalse(admits(traceAt(0.2), 1, 599))
    assert.isTrue(admits(traceAt(0.3), 1, 600))
    assert.isTrue(admits(traceAt(0.1), 500, 600))
    assert.isFalse(admits(traceAt(0.4), 1, 1_699))
    assert.isTrue(admits(traceAt(0.5), 1, 1_700))
  })

  for (const first of ["a part", "a whole trace"]) {
    it(`every later span of a trace gets the decision on its first record, ${first}`, () => {
      const { buffer, orgBuffer } = bufferWith({ spansPerSecond: 2 })
      const to = orgBuffer(1, false)
      const [admitted, refused] = [traceAt(0.1), traceAt(0.2)]
      const take = (trace_id: TraceId, name: string, now: number) =>
        buffer.admit(to, named(trace_id, [name, name], name === "first" && first === "a whole trace"), 0, now)
      take(admitted, "first", 0)
      take(refused, "first", 0)
      // No budget for new traces, only for one that continues; then budget for both.
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

  it("a whole trace gets the decision on a span of it that was recorded before, such as feedback", () => {
    const { buffer, orgBuffer } = bufferWith({ spansPerSecond: 2 })
    const to = orgBuffer(1, false)
    const [admitted, refused] = [traceAt(0.1), traceAt(0.2)]
    buffer.admit(to, named(admitted, ["feedback", "feedback"]), 0, 0)
    buffer.admit(to, named(refused, ["feedback", "feedback"]), 0, 0)
    buffer.admit(to, named(admitted, ["run"], true), 0, 0)
    buffer.admit(to, named(refused, ["run"], true), 0, 60_000)
    const { batches, dropped } = goingOut(buffer)
    assert.deepStrictEqual(
      batches.flat().map(({ name }) => name),
      ["feedback", "feedback", "run"]
    )
    assert.strictEqual(dropped, 3)
  })

  it("an organization whose queue is full is counted again after 10 ms, later after up to half a second", () => {
    const { buffer, orgBuffer } = bufferWith({ queueLimit: 10 })
    const to = orgBuffer(1, false, 10)
    const span = named(traceAt(0.1), ["a"])
    /** The time after `counted` at which the spans in the database are counted again. */
    const pauseAfter = (counted: number) => {
      for (let pause = 0; ; pause += 5) if (buffer.needsRecount(to, span, counted + pause)) return pause
    }
    const pauses: Array<number> = []
    for (let now = 0; pauses.length < 8;) {
      const pause = pauseAfter(now)
      pauses.push(pause)
      now += pause
      buffer.updateCount(to, 10, now, true)
    }
    assert.deepStrictEqual(pauses, [10, 20, 40, 80, 160, 320, 500, 500])
    buffer.updateCount(to, 9, 10_000, true)
    buffer.updateCount(to, 10, 10_000, false)
    assert.strictEqual(pauseAfter(10_000), 10, "the collector has accepted spans")
  })

  it("a score counts as a span of its trace if it is sent apart from spans", () => {
    const { buffer } = bufferWith({ queueLimit: 3 })
    const admitted = (scores: "span" | "phoenix") => {
      const org_id = organization(scores === "span" ? 1 : 2)
      const destination_id = TelemetryDestinationId.make(`tel_${org_id.slice(4)}`)
      const destination = { destination_id, content: false, trace: "own" as const, scores, waiting_spans: 0 }
      const to = buffer.open(org_id, destination, 0)
      for (const share of [0.1, 0.2]) {
        buffer.admit(to, { ...named(traceAt(share), ["feedback"]), score: () => "{}" }, 0, 0)
      }
      return [to.inMemory, to.dropped]
    }
    assert.deepStrictEqual(admitted("span"), [2, 0])
    assert.deepStrictEqual(admitted("phoenix"), [2, 2])
  })

  it("encoded spans of all organizations take at most 32 MiB, and others are admitted once they are stored", () => {
    const { buffer, orgBuffer } = bufferWith()
    const name = "x".repeat(60_000)
    let organizations = 0
    const admit = () => {
      const to = orgBuffer(++organizations, false)
      buffer.admit(to, named(traceAt(0.1 + organizations / 2_000), [name]), 0, 0)
      buffer.encode(1, {}, 0, () => true)
      return to.dropped === 0
    }
    while (admit()) assert.isBelow(organizations * name.length, 32 * 1024 * 1024)
    assert.isAbove(organizations, 200)
    assert.isFalse(admit())
    buffer.closeDue(0, true, () => true)
    while (buffer.hasReady()) for (const batch of buffer.takeReady().batches) buffer.release(batch)
    assert.isTrue(admit())
  })

  it("a request has at most 512 spans", () => {
    const { buffer, orgBuffer } = bufferWith()
    const to = orgBuffer(1, false)
    for (let count = 0; count < 513; count++) buffer.admit(to, named(traceAt(count / 513), ["a"]), 0, 0)
    const { batches, dropped } = goingOut(buffer)
    assert.deepStrictEqual([batches.map(({ length }) => length), dropped], [[512, 1], 0])
  })

  it("a span too large for any request is dropped and counted alone", () => {
    const { buffer, orgBuffer } = bufferWith()
    const to = orgBuffer(1, false)
    buffer.admit(to, named(traceAt(0.1), ["before", "x".repeat(2 * 1024 * 1024), "after"]), 0, 0)
    const { batches, dropped } = goingOut(buffer)
    assert.deepStrictEqual(
      batches.flat().map(({ name }) => name),
      ["before", "after"]
    )
    assert.deepStrictEqual([dropped, buffer.spanCount()], [1, 2])
  })
})

describe("SpanBuffer › traces waiting to be encoded", () => {
  it("a fault in making a trace's spans or its score drops and counts its spans alone", () => {
    const { buffer, orgBuffer } = bufferWith()
    const to = orgBuffer(1, false)
    const apart = buffer.open(
      organization(2),
      {
        destination_id: TelemetryDestinationId.make(`tel_${organization(2).slice(4)}`),
        content: false,
        trace: "own",
        scores: "langfuse",
        waiting_spans: 0
      },
      0
    )
    const fault = new Error("the spans cannot be made")
    const failing = (): never => {
      throw fault
    }
    buffer.admit(to, named(traceAt(0.1), ["before"]), 0, 0)
    buffer.admit(to, { ...named(traceAt(0.2), ["a", "b", "c"]), make: failing }, 0, 0)
    buffer.admit(apart, { ...named(traceAt(0.3), ["d"]), score: failing }, 0, 0)
    buffer.admit(to, named(traceAt(0.4), ["after"]), 0, 0)
    assert.deepStrictEqual(
      buffer.encode(10, {}, 0, () => true),
      { encoded: 4, faults: [fault, fault] }
    )
    assert.strictEqual(buffer.spanCount(), 2)
    buffer.closeDue(0, true, () => true)
    const { batches, drops } = buffer.takeReady()
    assert.deepStrictEqual(
      batches.map(({ spans }) => spans),
      [2]
    )
    assert.deepStrictEqual(
      [...drops],
      [
        [to, 3],
        [apart, 2]
      ]
    )
    // What could not be reported is reported the next time.
    buffer.restoreDrops(drops, 1)
    buffer.closeDue(1, true, () => true)
    assert.deepStrictEqual([...buffer.takeReady().drops], [...drops])
  })

  it("content is not kept if it is not exported", () => {
    const { buffer, orgBuffer } = bufferWith()
    buffer.admit(orgBuffer(1, false), recordedWith({ input: "words" }), 0, 0)
    assert.isUndefined(buffer.nextUnencoded()?.recorded.content)
  })

  it("content is kept if it is exported, except values that are too long", () => {
    const { buffer, orgBuffer } = bufferWith()
    const short = { list: ["words", 1, null, { a: true }] }
    const long = { list: Array.from({ length: 2_000 }, () => "twenty characters...") }
    buffer.admit(orgBuffer(1, true), recordedWith({ input: short, answer: long }), 0, 0)
    assert.deepStrictEqual(buffer.nextUnencoded()?.recorded.content, { input: short, answer: TOO_LONG })
  })

  it("two hundred traces of one organization fit, each with the most content that is exported", () => {
    const { buffer, orgBuffer } = bufferWith()
    const to = orgBuffer(1, true)
    const text = "x".repeat(30_000)
    for (let count = 0; count < 200; count++) {
      buffer.admit(to, recordedWith({ input: text, answer: text }), 0, 0)
    }
    assert.deepStrictEqual([buffer.unencodedCount(), to.dropped], [200, 0])
  })

  for (const content of [false, true]) {
    it(`one organization uses at most half of the budget, ${content ? "with" : "without"} content`, () => {
      const { buffer, orgBuffer } = bufferWith()
      const [one, other] = [orgBuffer(1, content), orgBuffer(2, content)]
      const fill = (into: OrgBuffer) => {
        const before = buffer.unencodedCount()
        const text = "x".repeat(30_000)
        while (into.dropped === 0) buffer.admit(into, recordedWith({ input: text, answer: text }), 0, 0)
        return buffer.unencodedCount() - before
      }
      const taken = fill(one)
      assert.strictEqual(taken, content ? 270 : 8_192)
      assert.strictEqual(fill(other), taken)
      // Encoding releases the budget for others.
      while (buffer.unencodedCount() > 0) buffer.encode(1_000, {}, 0, () => true)
      other.dropped = 0
      assert.strictEqual(fill(other), taken)
    })
  }
})
