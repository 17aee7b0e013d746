import { assert, describe, it } from "@effect/vitest"
import { TraceId } from "../../../../src/domain/Ids.ts"
import { makeTraceAdmissions } from "../../../../src/server/telemetry/Spans/TraceAdmissions.ts"

/** Trace ids that differ in their last digits, or in those before the last eight. */
const consecutive = (number: number) => TraceId.make(`f${number.toString(16).padStart(31, "0")}`)
const endingInZeros = (number: number) =>
  TraceId.make(`f${(number + 1).toString(16).padStart(23, "0")}${"0".repeat(8)}`)

describe("TraceAdmissions", () => {
  it("the last sixteen thousand decisions of each kind are remembered, and no other trace has one", () => {
    for (const idAt of [consecutive, endingInZeros]) {
      const admissions = makeTraceAdmissions()
      for (let number = 0; number < 16_384; number++) {
        admissions.remember(idAt(4 * number), "admitted", false)
        admissions.remember(idAt(4 * number + 1), "refused", false)
        admissions.remember(idAt(4 * number + 2), "admitted", true)
      }
      for (let number = 0; number < 16_384; number++) {
        assert.strictEqual(admissions.decisionFor(idAt(4 * number), true), "admitted")
        assert.strictEqual(admissions.decisionFor(idAt(4 * number + 1), true), "refused")
        assert.strictEqual(admissions.decisionFor(idAt(4 * number + 2), false), "admitted")
        assert.isUndefined(admissions.decisionFor(idAt(4 * number + 2), true))
        assert.isUndefined(admissions.decisionFor(idAt(4 * number + 3), false))
      }
    }
  })

  it("a flood of one kind forgets older decisions of that kind only", () => {
    const admissions = makeTraceAdmissions()
    admissions.remember(consecutive(0), "admitted", false)
    admissions.remember(consecutive(1), "refused", false)
    for (let number = 2; number < 40_000; number++) admissions.remember(consecutive(number), "refused", false)
    assert.strictEqual(admissions.decisionFor(consecutive(0), false), "admitted")
    assert.isUndefined(admissions.decisionFor(consecutive(1), false))
    assert.strictEqual(admissions.decisionFor(consecutive(39_999), false), "refused")
  })
})
