import { assert, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import {
  missingDecisions,
  RECENT_APPROVALS,
  type ReviewerCounts,
  reviewerStanding
} from "../../../../src/domain/approvals/Reviewer/reviewerStanding.ts"

const terms = { min_lower_bound: 0.95, max_false_approvals: 0.02 }

/** A reviewer that approved and rejected, with the newest approvals among all. */
const counts = (
  approve: readonly [agreed: number, disagreed: number],
  reject: readonly [agreed: number, disagreed: number] = [0, 0],
  recent: readonly [agreed: number, disagreed: number] = [Math.min(RECENT_APPROVALS, approve[0]), 0]
): ReviewerCounts => ({
  approve: { agreed: approve[0], disagreed: approve[1] },
  reject: { agreed: reject[0], disagreed: reject[1] },
  recent: { agreed: recent[0], disagreed: recent[1] }
})

describe("reviewerStanding", () => {
  it("a reviewer without decisions of people may decide nothing", () => {
    const { agreement, approve, false_approvals, reject } = reviewerStanding(counts([0, 0]), terms)
    assert.deepStrictEqual([approve, reject], ["agreement", "agreement"])
    assert.deepStrictEqual([agreement.bound, false_approvals.bound], [0, 1])
  })

  it("the right to approve is earned by the last decision that the bound needs, and not before", () => {
    const missing = missingDecisions(counts([0, 0]), terms) ?? assert.fail("out of reach")
    assert.strictEqual(reviewerStanding(counts([missing, 0]), terms).approve, null)
    assert.strictEqual(reviewerStanding(counts([missing - 1, 0]), terms).approve, "false_approvals")
    assert.strictEqual(missingDecisions(counts([missing, 0]), terms), 0)
  })

  it("whoever approves everything never earns it if people reject more than the bound", () => {
    assert.strictEqual(
      reviewerStanding(counts([9_700, 300], [0, 0], [49, 1]), terms).approve,
      "false_approvals"
    )
    assert.isUndefined(missingDecisions(counts([90_000, 10_000], [0, 0], [45, 5]), terms))
  })

  it("rejections have a bound of their own, so that easy approvals earn no right to reject", () => {
    const easy = reviewerStanding(counts([5_000, 0], [3, 3]), terms)
    assert.deepStrictEqual([easy.approve, easy.reject], [null, "agreement"])
    const both = reviewerStanding(counts([5_000, 0], [500, 1]), terms)
    assert.deepStrictEqual([both.approve, both.reject], [null, null])
  })

  it("three false approvals among the newest end the right, however long the good history is", () => {
    const long: readonly [number, number] = [100_000, 3]
    assert.strictEqual(
      reviewerStanding(counts(long, [0, 0], [48, 2]), { ...terms, max_false_approvals: 0.01 }).approve,
      null
    )
    assert.strictEqual(
      reviewerStanding(counts(long, [0, 0], [46, 4]), { ...terms, max_false_approvals: 0.01 }).approve,
      "fallen"
    )
    assert.strictEqual(
      reviewerStanding(counts(long, [0, 0], [17, 3]), { ...terms, max_false_approvals: 0.01 }).approve,
      "fallen"
    )
  })

  it("a disagreement never gives a right, and an agreement never takes one", () => {
    const number = fc.integer({ min: 0, max: 3_000 })
    fc.assert(
      fc.property(
        number,
        fc.integer({ min: 0, max: 30 }),
        number,
        fc.integer({ min: 0, max: 30 }),
        (a, b, c, d) => {
          const before = reviewerStanding(counts([a, b], [c, d]), terms)
          const worse = reviewerStanding(counts([a, b + 1], [c, d]), terms)
          const better = reviewerStanding(counts([a + 1, b], [c, d]), terms)
          if (before.approve !== null) assert.isNotNull(worse.approve)
          if (before.approve === null) assert.isNull(better.approve)
        }
      )
    )
  })

  it("a bound of zero is out of reach", () => {
    assert.isUndefined(
      missingDecisions(counts([10_000, 0]), { min_lower_bound: 0.95, max_false_approvals: 0 })
    )
  })
})
