import { assert, describe, it } from "@effect/vitest"
import fc from "fast-check"
import { TraceId } from "../../../src/domain/Ids.ts"
import { isSampled, makeSampling, SpanBudget } from "../../../src/domain/telemetry/SpanSampling.ts"

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

describe("SpanBudget", () => {
  it("admits one second's capacity immediately, then the configured rate", () => {
    const budget = new SpanBudget(10, 0)
    let now = 0
    const letIn = () => {
      let count = 0
      while (budget.admit(1, now)) count++
      return count
    }
    assert.strictEqual(letIn(), 10)
    now = 500
    assert.strictEqual(letIn(), 5)
    now = 60_000
    assert.strictEqual(letIn(), 10)
  })

  it("admits a trace whole or not at all, and an oversized trace when the bucket is full", () => {
    const budget = new SpanBudget(10, 0)
    assert.isTrue(budget.admit(8, 0))
    assert.isFalse(budget.admit(3, 0))
    assert.isTrue(budget.admit(2, 0))
    assert.isTrue(budget.admit(25, 1_000))
    assert.isFalse(budget.admit(1, 2_000))
  })

  it("never admits more than the capacity plus the rate over any period, credit repaid", () => {
    const steps = fc.array(
      fc.record({ wait: fc.nat({ max: 2_000 }), spans: fc.integer({ min: 1, max: 10 }) }),
      { maxLength: 100 }
    )
    fc.assert(
      fc.property(fc.integer({ min: 10, max: 1_000 }), steps, (perSecond, list) => {
        const budget = new SpanBudget(perSecond, 0)
        let now = 0
        let letIn = 0
        for (const { spans, wait } of list) {
          now += wait
          if (budget.admit(spans, now)) letIn += spans
          assert.isAtMost(letIn, perSecond + (now * perSecond) / 1000 + 1e-6)
        }
      })
    )
  })

  it("delays traces that follow one which continued on credit", () => {
    const budget = new SpanBudget(10, 0)
    assert.isTrue(budget.admit(10, 0))
    budget.charge(5, 0)
    assert.isFalse(budget.admit(1, 500))
    assert.isTrue(budget.admit(1, 700))
  })
})
