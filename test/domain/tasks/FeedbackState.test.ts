import { assert, describe, it } from "@effect/vitest"
import { Result } from "effect"
import fc from "fast-check"
import { FeedbackStatus } from "../../../src/domain/tasks/Feedback.ts"
import { type FeedbackInput, initialStatus, transition } from "../../../src/domain/tasks/FeedbackState.ts"

const verdicts: ReadonlyArray<FeedbackInput> = ["Stage", "Unstage", "Reject"]
const inputs: ReadonlyArray<FeedbackInput> = [...verdicts, "Withdraw"]

describe("FeedbackState", () => {
  it("the transitions are those of the diagram and no others", () => {
    const moves = FeedbackStatus.literals.flatMap((status) =>
      inputs.flatMap((input) => {
        const next = transition(status, input)
        return Result.isSuccess(next) && next.success !== status ? [`${status} ${input} ${next.success}`] : []
      })
    )
    assert.deepStrictEqual(moves, [
      "pending Stage staged",
      "pending Reject rejected",
      "pending Withdraw withdrawn",
      "staged Unstage pending",
      "staged Reject rejected",
      "staged Withdraw withdrawn"
    ])
  })

  it("repeating a verdict is accepted, and what was promoted or rejected cannot be undone", () => {
    for (const status of ["promoted", "superseded"] as const) {
      assert.deepStrictEqual(transition(status, "Stage"), Result.succeed(status))
      assert.deepStrictEqual(transition(status, "Unstage"), Result.fail("AlreadyReviewed"))
      assert.deepStrictEqual(transition(status, "Reject"), Result.fail("AlreadyReviewed"))
    }
    assert.deepStrictEqual(transition("staged", "Stage"), Result.succeed("staged"))
    assert.deepStrictEqual(transition("pending", "Unstage"), Result.succeed("pending"))
    assert.deepStrictEqual(transition("rejected", "Unstage"), Result.fail("AlreadyReviewed"))
    assert.deepStrictEqual(transition("rejected", "Reject"), Result.succeed("rejected"))
    assert.deepStrictEqual(transition("rejected", "Stage"), Result.fail("AlreadyReviewed"))
    for (const input of verdicts) {
      assert.deepStrictEqual(transition("withdrawn", input), Result.fail("AlreadyReviewed"))
    }
  })

  it("feedback without a correction never changes its status", () => {
    assert.strictEqual(initialStatus(false), "recorded")
    for (const input of verdicts)
      assert.deepStrictEqual(transition("recorded", input), Result.fail("NoCorrection"))
    assert.deepStrictEqual(transition("recorded", "Withdraw"), Result.succeed("recorded"))
  })

  it("a correction stays rejected from the first rejection on, for any sequence of verdicts", () => {
    fc.assert(
      fc.property(fc.array(fc.constantFrom(...verdicts), { maxLength: 20 }), (story) => {
        let status = initialStatus(true)
        for (const input of story) {
          const next = transition(status, input)
          if (Result.isSuccess(next)) status = next.success
        }
        const last = story.findLast((input) => input !== "Reject")
        const expected = story.includes("Reject") ? "rejected" : last === "Stage" ? "staged" : "pending"
        assert.strictEqual(status, expected)
      })
    )
  })
})
