import { assert, describe, it } from "@effect/vitest"
import {
  bandText,
  greatestPercent,
  leastPercent,
  standingOf
} from "../../../../src/console/pages/reviewers/reviewerTexts.ts"
import {
  fromTermsDraft,
  termsFault,
  toTermsDraft
} from "../../../../src/console/pages/reviewers/ReviewerTermsFields.tsx"
import {
  newReviewerDraft,
  restoreReviewer,
  toNewReviewer,
  toStoredReviewer
} from "../../../../src/console/pages/reviewers/ReviewerDraft.ts"
import { TaskId } from "../../../../src/domain/Ids.ts"

const task_id = TaskId.make(`tsk_${"0".repeat(32)}`)

describe("Texts of reviewer models", () => {
  it("a bound is rounded to the safe side: a least share down, a greatest one up", () => {
    assert.strictEqual(leastPercent(0.96399), "96.3 %")
    assert.strictEqual(greatestPercent(0.02001), "2.1 %")
    assert.strictEqual(greatestPercent(0), "0 %")
  })

  it.each([
    [{ above: null, up_to: 100 }, "up to 100"],
    [{ above: 100, up_to: 1_000 }, "above 100, up to 1,000"],
    [{ above: 1_000, up_to: null }, "above 1,000"],
    [null, "any"]
  ])("the band %o is called %s", (band, text) => {
    assert.strictEqual(bandText(band), text)
  })

  it.each([
    [{ approve: null, reject: null, missing: 0 }, "May decide", ""],
    [
      { approve: null, reject: "agreement", missing: 0 },
      "May approve",
      "People decide what it would reject."
    ],
    [
      { approve: "false_approvals", reject: null, missing: 1_234 },
      "May reject",
      "Too many approvals may be wrong. At least 1,234 more agreed approvals are missing."
    ],
    [
      { approve: "agreement", reject: "agreement", missing: null },
      "Not earned",
      "People agree too seldom. More than 100,000 agreed approvals are missing."
    ]
  ] as const)("%o is said in words", (standing, label, detail) => {
    assert.deepInclude(standingOf({ ...standing, has_amount: true }), { label, detail })
  })

  it("steps without an amount are never decided, whatever the figures", () => {
    assert.strictEqual(
      standingOf({ approve: null, reject: null, missing: 0, has_amount: false }).label,
      "Never"
    )
  })
})

describe("The form of a rule's reviewer", () => {
  it("keeps shares exact over the percentages that people edit", () => {
    const reviewer = { task_id, min_lower_bound: 0.975, max_false_approvals: 0.014, sample: 0.07, never: [] }
    assert.deepStrictEqual(fromTermsDraft(toTermsDraft(reviewer), task_id, []), reviewer)
  })

  it("refuses as many false approvals as are missing of the agreement to 100 %", () => {
    assert.isUndefined(termsFault({ min_lower_bound: "95", max_false_approvals: "4.9", sample: "10" }))
    assert.isDefined(termsFault({ min_lower_bound: "95", max_false_approvals: "5", sample: "10" }))
  })
})

describe("The form of a reviewer", () => {
  it("becomes the request, with a tool per line and bounds in any separation", () => {
    const request = toNewReviewer({
      ...newReviewerDraft,
      name: " Small refunds ",
      tools: "payments.refund\n\n vouchers.* ",
      pointer: "/amount",
      bounds: "100; 1000, 5000"
    })
    assert.deepInclude(request, {
      name: "Small refunds",
      tools: ["payments.refund", "vouchers.*"],
      amount: { pointer: "/amount", bounds: [100, 1_000, 5_000] }
    })
  })

  it("is kept without secrets, and not if it is as it was or of another version", () => {
    const provider = { ...newReviewerDraft.provider, api_key: "sk-secret", headers: "X-Key: secret" }
    assert.isUndefined(toStoredReviewer({ ...newReviewerDraft, provider }))
    const stored = toStoredReviewer({ ...newReviewerDraft, name: "Small refunds", provider })
    assert.notInclude(JSON.stringify(stored), "secret")
    assert.strictEqual(restoreReviewer(stored)?.name, "Small refunds")
    assert.isUndefined(restoreReviewer({ name: "Small refunds" }))
    assert.isUndefined(restoreReviewer({ ...newReviewerDraft, provider: { kind: "other" } }))
  })
})
