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

describe("DestinationCache", () => {
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
