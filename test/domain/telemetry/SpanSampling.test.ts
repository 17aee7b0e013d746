import { assert, describe, it } from "@effect/vitest"
import fc from "fast-check"
import { TraceId } from "../../../src/domain/Ids.ts"
import { isSampled, makeSampling, SpanBudget } from "../../../src/domain/telemetry/SpanSampling.ts"

const digits = fc.constantFrom(...Array.from("0123456789abcdef"))
const traceIds = fc.array(digits, { minLength: 32, maxLength: 32 }).map((all) => TraceId.make(all.join("")))
const ratios = fc.double({ min: 0, max: 1, noNaN: true })

/** The randomness of a trace id, read apart from the code. */
const randomness = (trace_id: string): bigint => BigInt.asUintN(56, BigInt(`0x${trace_id}`))

/** The threshold that a trace state tells, as the specification reads it: padded with zeros on the right. */
const told = (traceState: string): bigint =>
  BigInt(`0x${/^ot=th:([0-9a-f]{1,14})$/.exec(traceState)?.[1]?.padEnd(14, "0") ?? assert.fail(traceState)}`)

describe("samplingAt", () => {
  it("tells thresholds as the specification's examples do", () => {
    assert.strictEqual(makeSampling(1).traceState, "ot=th:0")
    assert.strictEqual(makeSampling(0.5).traceState, "ot=th:8")
    assert.strictEqual(makeSampling(0.25).traceState, "ot=th:c")
    assert.strictEqual(makeSampling(0.125).traceState, "ot=th:e")
    assert.strictEqual(makeSampling(2 ** -56).traceState, "ot=th:ffffffffffffff")
    assert.strictEqual(makeSampling(0).threshold, null)
  })

  it("keeps a trace by its last 56 bits and by nothing else, as its trace state says", () => {
    fc.assert(
      fc.property(ratios, traceIds, (ratio, trace_id) => {
        const sampling = makeSampling(ratio)
        if (sampling.threshold === null) return assert.isFalse(isSampled(sampling, trace_id))
        assert.strictEqual(isSampled(sampling, trace_id), randomness(trace_id) >= told(sampling.traceState))
      })
    )
  })

  it("keeps all at ratio 1 and none at 0", () => {
    fc.assert(
      fc.property(traceIds, (trace_id) => {
        assert.isTrue(isSampled(makeSampling(1), trace_id))
        assert.isFalse(isSampled(makeSampling(0), trace_id))
      })
    )
  })

  it("keeps at a higher ratio whatever it keeps at a lower one", () => {
    fc.assert(
      fc.property(ratios, ratios, traceIds, (one, other, trace_id) => {
        const [low, high] = one < other ? [one, other] : [other, one]
        if (isSampled(makeSampling(low), trace_id)) assert.isTrue(isSampled(makeSampling(high), trace_id))
      })
    )
  })

  it("keeps the share it is told to, of evenly spread ids", () => {
    const ids = 4_096
    fc.assert(
      fc.property(ratios, fc.nat({ max: 2 ** 30 }), (ratio, offset) => {
        const sampling = makeSampling(ratio)
        let kept = 0
        for (let index = 0; index < ids; index++) {
          // Evenly over the 56 bits, from somewhere within the first step.
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
  it("lets in at once a second's worth, and then as many a second as it is told", () => {
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

  it("takes a trace whole or not at all, and one that is too large for a second alone", () => {
    const budget = new SpanBudget(10, 0)
    assert.isTrue(budget.admit(8, 0))
    assert.isFalse(budget.admit(3, 0))
    assert.isTrue(budget.admit(2, 0))
    assert.isTrue(budget.admit(25, 1_000))
    assert.isFalse(budget.admit(1, 2_000))
  })

  it("lets no more in over any time than a second's worth and what that time allows, credit paid back", () => {
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

  it("makes traces wait that come after one which went on without room", () => {
    const budget = new SpanBudget(10, 0)
    assert.isTrue(budget.admit(10, 0))
    budget.charge(5, 0)
    assert.isFalse(budget.admit(1, 500))
    assert.isTrue(budget.admit(1, 700))
  })
})
