import { assert, describe, it } from "@effect/vitest"
import { DateTime } from "effect"
import fc from "fast-check"
import { FeedbackId } from "../../../src/domain/Ids.ts"
import { sortByStagingTime, planPromotion, type StagedFeedback } from "../../../src/domain/tasks/Promotion.ts"

const staged = (id: number, input: number, at: number): StagedFeedback => ({
  feedback_id: FeedbackId.make(`fbk_${String(id).padStart(32, "0")}`),
  input_digest: String(input).padStart(64, "0"),
  staged_at: DateTime.makeUnsafe(at)
})

const sets = fc
  .uniqueArray(fc.tuple(fc.nat(30), fc.nat(4), fc.nat(3)), { selector: ([id]) => id, maxLength: 20 })
  .map((list) => list.map(([id, input, at]) => staged(id, input, at)))

describe("planPromotion", () => {
  it("the correction staged last for each input is promoted and supersedes the others", () => {
    const { promoted, superseded } = planPromotion([
      staged(1, 1, 10),
      staged(2, 1, 30),
      staged(3, 1, 20),
      staged(4, 2, 5)
    ])
    assert.deepStrictEqual(
      promoted.map(({ feedback_id }) => feedback_id),
      [staged(4, 2, 5).feedback_id, staged(2, 1, 30).feedback_id]
    )
    assert.deepStrictEqual(superseded, [
      { id: staged(1, 1, 10).feedback_id, superseded_by: staged(2, 1, 30).feedback_id },
      { id: staged(3, 1, 20).feedback_id, superseded_by: staged(2, 1, 30).feedback_id }
    ])
  })

  it("of two corrections staged at the same time, the later feedback is promoted", () => {
    const set = [staged(1, 1, 10), staged(2, 1, 10)]
    for (const either of [set, set.toReversed()]) {
      assert.deepStrictEqual(planPromotion(either).superseded, [
        { id: staged(1, 1, 10).feedback_id, superseded_by: staged(2, 1, 10).feedback_id }
      ])
    }
  })

  it("the time of staging decides, not the time of the feedback", () => {
    const [first, second, third] = [staged(3, 1, 10), staged(1, 2, 20), staged(2, 3, 20)]
    assert.deepStrictEqual(sortByStagingTime([third, first, second]), [first, second, third])
  })

  it("every correction is promoted or superseded, one per input is promoted, and the order of the input does not matter", () => {
    fc.assert(
      fc.property(sets, fc.integer(), (set, seed) => {
        const plan = planPromotion(set)
        const ids = [
          ...plan.promoted.map(({ feedback_id }) => feedback_id),
          ...plan.superseded.map(({ id }) => id)
        ]
        assert.sameMembers(
          ids,
          set.map(({ feedback_id }) => feedback_id)
        )
        assert.lengthOf(new Set(plan.promoted.map(({ input_digest }) => input_digest)), plan.promoted.length)
        for (const winner of plan.promoted) {
          for (const other of set.filter(({ input_digest }) => input_digest === winner.input_digest)) {
            assert.isAtMost(DateTime.toEpochMillis(other.staged_at), DateTime.toEpochMillis(winner.staged_at))
          }
        }
        const turned = set.toSorted((left, right) =>
          left.feedback_id + seed < right.feedback_id + seed ? 1 : -1
        )
        assert.strictEqual(planPromotion(turned).revision, plan.revision)
        assert.sameDeepMembers([...planPromotion(turned).promoted], [...plan.promoted])
      })
    )
  })

  it("different sets have different revisions, and so have sets that were staged at different times", () => {
    fc.assert(
      fc.property(sets, sets, (left, right) => {
        const ids = (set: ReadonlyArray<StagedFeedback>) =>
          set
            .map(({ feedback_id, staged_at }) => `${feedback_id} ${DateTime.toEpochMillis(staged_at)}`)
            .toSorted()
            .join()
        assert.strictEqual(
          planPromotion(left).revision === planPromotion(right).revision,
          ids(left) === ids(right)
        )
      })
    )
  })
})
