import { assert, describe, it } from "@effect/vitest"
import fc from "fast-check"
import { conclude, type Outcome } from "../../src/domain/DeliveryState.ts"
import { defaultRetryPolicy } from "../../src/domain/RetryPolicy.ts"

const status = fc.option(fc.integer({ min: 200, max: 599 }), { nil: null })
const outcomes: fc.Arbitrary<Outcome> = fc.oneof(
  fc.record({ _tag: fc.constant("Delivered" as const), status }),
  fc.record({
    _tag: fc.constant("Retry" as const),
    error: fc.string(),
    status,
    retryAfter: fc.option(fc.nat(), { nil: null })
  }),
  fc.record({ _tag: fc.constant("Refused" as const), error: fc.string() }),
  fc.record({ _tag: fc.constant("Gone" as const), error: fc.string(), status })
)

describe("conclude", () => {
  it("ends a delivery that arrived, is refused or is not wanted, at whatever attempt", () => {
    fc.assert(
      fc.property(outcomes, fc.integer({ min: 1, max: 20 }), (outcome, made) => {
        const verdict = conclude(defaultRetryPolicy, outcome, made, 0.5)
        if (outcome._tag === "Delivered") assert.strictEqual(verdict._tag, "Delivered")
        else if (outcome._tag === "Retry") assert.strictEqual(verdict._tag, made < 10 ? "Again" : "Failed")
        else assert.deepStrictEqual(verdict, { _tag: "Failed", error: outcome.error })
      })
    )
  })

  it("makes exactly ten attempts at a receiver that never answers", () => {
    const outcome: Outcome = { _tag: "Retry", error: "timed out", status: null, retryAfter: null }
    let made = 1
    while (conclude(defaultRetryPolicy, outcome, made, 0.9)._tag === "Again") made++
    assert.strictEqual(made, 10)
  })
})
