import { assert, describe, it } from "@effect/vitest"
import fc from "fast-check"
import {
  conclude,
  type AttemptOutcome,
  destinationVerdict
} from "../../../src/domain/delivery/DeliveryState.ts"
import { defaultRetryPolicy } from "../../../src/domain/delivery/RetryPolicy.ts"

const status = fc.option(fc.integer({ min: 200, max: 599 }), { nil: null })
const outcomes: fc.Arbitrary<AttemptOutcome> = fc.oneof(
  fc.record({ _tag: fc.constant("Delivered" as const), status }),
  fc.record({
    _tag: fc.constant("Retry" as const),
    error: fc.string(),
    status,
    retryAfter: fc.option(fc.nat(), { nil: null })
  }),
  fc.record({
    _tag: fc.constant("Partial" as const),
    rejected: fc.nat(),
    error: fc.string(),
    status
  }),
  fc.record({ _tag: fc.constant("Failed" as const), error: fc.string(), status }),
  fc.record({ _tag: fc.constant("Refused" as const), error: fc.string() }),
  fc.record({ _tag: fc.constant("Gone" as const), error: fc.string(), status })
)

describe("conclude", () => {
  it("completes a delivery that was delivered, refused or answered by Gone at any attempt", () => {
    fc.assert(
      fc.property(outcomes, fc.integer({ min: 1, max: 20 }), (outcome, attemptsMade) => {
        const verdict = conclude(defaultRetryPolicy, outcome, {
          attemptsMade,
          remainingMillis: Infinity,
          random: 0.5
        })
        if (outcome._tag === "Delivered") assert.strictEqual(verdict._tag, "Delivered")
        else if (outcome._tag === "Partial") {
          assert.deepStrictEqual(verdict, {
            _tag: "Partial",
            rejected: outcome.rejected,
            error: outcome.error
          })
        } else if (outcome._tag === "Retry")
          assert.strictEqual(verdict._tag, attemptsMade < 10 ? "RetryLater" : "Failed")
        else assert.deepStrictEqual(verdict, { _tag: "Failed", error: outcome.error })
      })
    )
  })

  it("makes exactly ten attempts if the receiver never responds", () => {
    const outcome: AttemptOutcome = { _tag: "Retry", error: "timed out", status: null, retryAfter: null }
    let attemptsMade = 1
    while (
      conclude(defaultRetryPolicy, outcome, { attemptsMade, remainingMillis: Infinity, random: 0.9 })._tag ===
      "RetryLater"
    )
      attemptsMade++
    assert.strictEqual(attemptsMade, 10)
  })

  it("makes no attempt that would start after the remaining time", () => {
    const outcome: AttemptOutcome = { _tag: "Retry", error: "timed out", status: null, retryAfter: null }
    const at = (remainingMillis: number) =>
      conclude(defaultRetryPolicy, outcome, { attemptsMade: 1, remainingMillis, random: 0.5 })._tag
    assert.strictEqual(at(5_000), "RetryLater")
    assert.strictEqual(at(4_999), "Failed")
  })
})

describe("destinationVerdict", () => {
  it("a failure counts against the destination, unless only the delivery is at fault", () => {
    const failure = { error: "HTTP 400", status: 400 }
    assert.strictEqual(destinationVerdict({ _tag: "Delivered", status: 200 }), "success")
    assert.strictEqual(destinationVerdict({ _tag: "Partial", rejected: 1, ...failure }), "success")
    assert.strictEqual(destinationVerdict({ _tag: "Failed", ...failure }), "failure")
    assert.strictEqual(destinationVerdict({ _tag: "Retry", retryAfter: null, ...failure }), "failure")
    assert.strictEqual(destinationVerdict({ _tag: "Gone", ...failure }), "failure")
    assert.strictEqual(destinationVerdict({ _tag: "Failed", fault: "delivery", ...failure }), "success")
    assert.strictEqual(
      destinationVerdict({ _tag: "Retry", fault: "delivery", retryAfter: null, ...failure }),
      "success"
    )
    assert.strictEqual(destinationVerdict({ _tag: "Refused", error: "switched off" }), "ignored")
  })
})
