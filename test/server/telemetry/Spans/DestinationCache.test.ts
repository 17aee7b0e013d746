import { assert, describe, it } from "@effect/vitest"
import { OrgId, TelemetryDestinationId, TraceId } from "../../../../src/domain/Ids.ts"
import { makeSampling } from "../../../../src/domain/telemetry/SpanSampling.ts"
import { makeSpanBuffer } from "../../../../src/server/telemetry/Spans/SpanBuffer.ts"
import type { OrgBuffer } from "../../../../src/server/telemetry/Spans/OrgBuffer.ts"
import { makeDestinationCache } from "../../../../src/server/telemetry/Spans/DestinationCache.ts"

const org_id = OrgId.make(`org_${"0".repeat(12)}7${"0".repeat(3)}8${"0".repeat(15)}`)

/** A trace id whose random part is `share` of its range. */
const traceAt = (share: number) =>
  TraceId.make(
    `${"a".repeat(18)}${Math.floor(share * 2 ** 32)
      .toString(16)
      .padStart(8, "0")}${"0".repeat(6)}`
  )

/** A cache in which every trace is sampled, and what its lookups led to. */
const setUp = () => {
  const buffer = makeSpanBuffer({
    sampling: makeSampling(1),
    queueLimit: 100_000,
    spansPerSecond: 100_000,
    flushMillis: 1_000
  })
  const cache = makeDestinationCache(buffer, () => undefined)
  let traces = 0
  /** Records a trace, and returns the destination that it is for. */
  const record = (now = 0) => {
    const recorded = { trace_id: traceAt((++traces % 1_000) / 1_000), count: 1, whole: true, make: () => [] }
    return cache.bufferFor(org_id, now, recorded, 0)?.destination_id
  }
  /** Resolves a lookup with the destination of this number, or none. Returns the number of traces that waited for it. */
  const resolve = (digit: number | undefined, now = 0) => {
    const taken = { waited: 0, missed: 0 }
    const destination =
      digit === undefined
        ? undefined
        : {
            destination_id: destinationId(digit),
            content: false,
            trace: "own" as const,
            scores: "span" as const,
            waiting_spans: 0
          }
    cache.resolve(org_id, destination, now, (_, waited, missed) => {
      taken.waited += waited.length
      taken.missed += missed
    })
    return taken
  }
  return { cache, record, resolve }
}

const destinationId = (digit: number) => TelemetryDestinationId.make(`tel_${org_id.slice(4, -1)}${digit}`)

describe("DestinationCache", () => {
  it("an organization without a destination is looked up again after five seconds", () => {
    const { cache, record, resolve } = setUp()
    record()
    cache.takeLookups(1)
    assert.deepStrictEqual(resolve(undefined), { waited: 0, missed: 0 })
    record(4_999)
    assert.isFalse(cache.hasLookups())
    record(5_000)
    assert.isTrue(cache.hasLookups())
    cache.takeLookups(1)
    assert.deepStrictEqual(resolve(1, 5_000), { waited: 1, missed: 0 })
    assert.strictEqual(record(5_000), destinationId(1))
  })

  it("a destination that changed while it was looked up is looked up again", () => {
    const { cache, record, resolve } = setUp()
    record()
    cache.takeLookups(1)
    cache.invalidate(org_id)
    assert.deepStrictEqual(resolve(1), { waited: 0, missed: 0 })
    assert.isUndefined(record())
    cache.takeLookups(1)
    assert.deepStrictEqual(resolve(2), { waited: 2, missed: 0 })
    assert.strictEqual(record(), destinationId(2))
  })

  it("traces recorded for a destination are not sent to its successor", () => {
    const { cache, record, resolve } = setUp()
    record()
    cache.takeLookups(1)
    resolve(1)
    const buffer = cache.peek(org_id)
    assert.strictEqual(buffer?.destination_id, destinationId(1))
    const full = { trace_id: traceAt(0.5), count: 1, whole: true, make: () => [] }
    for (const [next, waited] of [
      [1, 1],
      [2, 0]
    ] as const) {
      if (buffer !== undefined) cache.recount(buffer, full, 0)
      cache.takeLookups(1)
      assert.deepStrictEqual(resolve(next), { waited, missed: 0 })
      assert.strictEqual(record(), destinationId(next))
    }
  })

  it("an organization's traces that wait for a lookup are limited, and count as dropped beyond that", () => {
    const { cache, record, resolve } = setUp()
    for (const round of [1, 2]) {
      for (let count = 0; count < 1_030; count++) record()
      cache.takeLookups(1)
      assert.deepStrictEqual(resolve(1), { waited: 1_024, missed: 6 }, `round ${round}`)
      cache.invalidate(org_id)
    }
  })

  it("unsampled traces are not counted as dropped while a lookup is pending", () => {
    const buffer = makeSpanBuffer({
      sampling: makeSampling(0.25),
      queueLimit: 100_000,
      spansPerSecond: 100_000,
      flushMillis: 1_000
    })
    const known = makeDestinationCache(buffer, () => undefined)
    const traces = 4_000
    for (let count = 0; count < traces; count++) {
      const recorded = { trace_id: traceAt(count / traces), count: 1, whole: true, make: () => [] }
      known.bufferFor(org_id, 0, recorded, 0)
    }
    const answers: Array<readonly [OrgBuffer, number, number]> = []
    const destination = {
      destination_id: TelemetryDestinationId.make(`tel_${org_id.slice(4)}`),
      content: false,
      trace: "own" as const,
      scores: "span" as const,
      waiting_spans: 0
    }
    known.takeLookups(1)
    known.resolve(org_id, destination, 0, (orgBuffer, waited, missed) =>
      answers.push([orgBuffer, waited.length, missed])
    )
    assert.deepStrictEqual(
      answers.map(([, waited, missed]) => [waited, missed]),
      [[1_000, 0]]
    )
  })
})
