import { assert, describe, it } from "@effect/vitest"
import fc from "fast-check"
import { TraceId } from "../../../src/domain/Ids.ts"
import { isSampled, makeSampling } from "../../../src/domain/telemetry/SpanSampling.ts"

const digits = fc.constantFrom(...Array.from("0123456789abcdef"))
const traceIds = fc.array(digits, { minLength: 32, maxLength: 32 }).map((all) => TraceId.make(all.join("")))
const ratios = fc.double({ min: 0, max: 1, noNaN: true })

/** The randomness of a trace id, computed independently. */
const randomness = (trace_id: string): bigint => BigInt.asUintN(56, BigInt(`0x${trace_id}`))

/** The threshold of a trace state, as the specification reads it: padded with zeros on the right. */
const thresholdOf = (traceState: string): bigint =>
  BigInt(`0x${/^ot=th:([0-9a-f]{1,14})$/.exec(traceState)?.[1]?.padEnd(14, "0") ?? assert.fail(traceState)}`)

describe("makeSampling", () => {
  it("writes thresholds as in the specification's examples", () => {
    assert.strictEqual(makeSampling(1).traceState, "ot=th:0")
    assert.strictEqual(makeSampling(0.5).traceState, "ot=th:8")
    assert.strictEqual(makeSampling(0.25).traceState, "ot=th:c")
    assert.strictEqual(makeSampling(0.125).traceState, "ot=th:e")
    assert.strictEqual(makeSampling(2 ** -56).traceState, "ot=th:ffffffffffffff")
    assert.strictEqual(makeSampling(0).threshold, null)
  })

  it("samples a trace by its last 56 bits only, consistently with its trace state", () => {
    fc.assert(
      fc.property(ratios, traceIds, (ratio, trace_id) => {
        const sampling = makeSampling(ratio)
        if (sampling.threshold === null) return assert.isFalse(isSampled(sampling, trace_id))
        assert.strictEqual(
          isSampled(sampling, trace_id),
          randomness(trace_id) >= thresholdOf(sampling.traceState)
        )
      })
    )
  })

  it("samples everything at ratio 1 and nothing at ratio 0", () => {
    fc.assert(
      fc.property(traceIds, (trace_id) => {
        assert.isTrue(isSampled(makeSampling(1), trace_id))
        assert.isFalse(isSampled(makeSampling(0), trace_id))
      })
    )
  })

  it("a higher ratio samples every trace that a lower ratio samples", () => {
    fc.assert(
      fc.property(ratios, ratios, traceIds, (one, other, trace_id) => {
        const [low, high] = one < other ? [one, other] : [other, one]
        if (isSampled(makeSampling(low), trace_id)) assert.isTrue(isSampled(makeSampling(high), trace_id))
      })
    )
  })

  it("samples the configured share of evenly distributed ids", () => {
    const ids = 4_096
    fc.assert(
      fc.property(ratios, fc.nat({ max: 2 ** 30 }), (ratio, offset) => {
        const sampling = makeSampling(ratio)
        let kept = 0
        for (let index = 0; index < ids; index++) {
          // Evenly over the 56 bits, starting somewhere in the first step.
          const random = (BigInt(index) << 44n) + BigInt(offset)
          if (isSampled(sampling, TraceId.make(`ffffffffffffffffff${random.toString(16).padStart(14, "0")}`)))
            kept++
        }
        assert.isAtMost(Math.abs(kept - ratio * ids), 1)
      })
    )
  })
})
