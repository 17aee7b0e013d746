import { assert, describe, it } from "@effect/vitest"
import { Result } from "effect"
import fc from "fast-check"
import { FeedbackStatus } from "../../src/domain/Feedback.ts"
import { type FeedbackInput, opened, transition } from "../../src/domain/FeedbackState.ts"

const inputs: ReadonlyArray<FeedbackInput> = ["Stage", "Reject", "Promote", "Supersede"]

describe("a correction", () => {
  it("moves as the diagram says, and in no other way", () => {
    const moves = FeedbackStatus.literals.flatMap((status) =>
      inputs.flatMap((input) => {
        const next = transition(status, input)
        return Result.isSuccess(next) && next.success !== status ? [`${status} ${input} ${next.success}`] : []
      })
    )
    assert.deepStrictEqual(moves, [
      "pending Stage staged",
      "pending Reject rejected",
      "staged Promote promoted",
      "staged Supersede superseded"
    ])
  })

  it("takes the same verdict again, and no other", () => {
    for (const status of ["staged", "promoted", "superseded"] as const) {
      assert.deepStrictEqual(transition(status, "Stage"), Result.succeed(status))
      assert.deepStrictEqual(transition(status, "Reject"), Result.fail("AlreadyReviewed"))
    }
    assert.deepStrictEqual(transition("rejected", "Reject"), Result.succeed("rejected"))
    assert.deepStrictEqual(transition("rejected", "Stage"), Result.fail("AlreadyReviewed"))
  })

  it("is not there where feedback is a score alone, so that nothing moves it", () => {
    assert.strictEqual(opened(false), "recorded")
    for (const input of inputs)
      assert.deepStrictEqual(transition("recorded", input), Result.fail("NoCorrection"))
  })

  it("whatever comes in whatever order: is reviewed once, and promoted or superseded only when staged before", () => {
    fc.assert(
      fc.property(fc.array(fc.constantFrom(...inputs), { maxLength: 20 }), (story) => {
        const passed = new Set<string>([opened(true)])
        let status = opened(true)
        for (const input of story) {
          const next = transition(status, input)
          if (Result.isFailure(next) || next.success === status) continue
          status = next.success
          assert.isFalse(passed.has(status), "no state is come back to")
          passed.add(status)
        }
        assert.isFalse(passed.has("staged") && passed.has("rejected"))
        assert.isFalse(passed.has("promoted") && passed.has("superseded"))
        if (passed.has("promoted") || passed.has("superseded")) assert.isTrue(passed.has("staged"))
      })
    )
  })
})
