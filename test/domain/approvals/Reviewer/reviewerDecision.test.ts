import { assert, describe, it } from "@effect/vitest"
import type { Ruling } from "../../../../src/domain/approvals/ApprovalRule.ts"
import {
  decisionOfAnswer,
  hasEarnedSome,
  MAX_REVIEWED_ARGUMENTS,
  type NotAsked,
  reasonNotToAsk,
  type ReviewFacts
} from "../../../../src/domain/approvals/Reviewer/reviewerDecision.ts"
import type { StandingFault } from "../../../../src/domain/approvals/Reviewer/reviewerStanding.ts"
import { TaskId } from "../../../../src/domain/Ids.ts"

const reviewer = {
  task_id: TaskId.make(`tsk_${"a".repeat(32)}`),
  min_lower_bound: 0.95,
  max_false_approvals: 0.02,
  sample: 0.1,
  never: []
}

const terms: Ruling["terms"] = {
  review_seconds: 60,
  expiring_seconds: null,
  escalation_seconds: null,
  timeout_action: "reject",
  self_approval: false,
  require_comment: "never",
  quorum: [{ count: 1, group: null }]
}

const ruling: ReviewFacts["ruling"] = { effect: "require_approval", reviewer, terms }

const step: ReviewFacts = {
  ruling,
  isPersons: false,
  mayHaveAdvance: false,
  isRepeated: false,
  size: 100
}

describe("reasonNotToAsk", () => {
  const { reviewer: _, ...withoutReviewer } = ruling
  const cases: ReadonlyArray<readonly [name: string, over: Partial<ReviewFacts>, expected: NotAsked | null]> =
    [
      ["a step of a rule with a reviewer is put to it", {}, null],
      ["a step of a rule without one", { ruling: withoutReviewer }, "no_reviewer"],
      ["a step that a rule allows by itself", { ruling: { ...ruling, effect: "allow" } }, "never"],
      ["a step that a rule rejects by itself", { ruling: { ...ruling, effect: "reject" } }, "never"],
      ["a rule that could not be judged", { ruling: { ...ruling, unjudged: true } }, "never"],
      [
        "a rule whose timeout allows",
        { ruling: { ...ruling, terms: { ...terms, timeout_action: "allow" } } },
        "never"
      ],
      [
        "a rule with a quorum",
        { ruling: { ...ruling, terms: { ...terms, quorum: [{ count: 2, group: null }] } } },
        "never"
      ],
      [
        "a rule that asks a group",
        { ruling: { ...ruling, terms: { ...terms, quorum: [{ count: 1, group: "finance" }] } } },
        "never"
      ],
      ["a step that the key of a person submits", { isPersons: true }, "person"],
      ["a step that a person may have allowed before", { mayHaveAdvance: true }, "advance"],
      ["a call that was not allowed before", { isRepeated: true }, "repeated"],
      ["arguments at the limit", { size: MAX_REVIEWED_ARGUMENTS }, null],
      ["arguments over the limit", { size: MAX_REVIEWED_ARGUMENTS + 1 }, "too_large"]
    ]
  for (const [name, over, expected] of cases) {
    it(`${name}: ${expected ?? "asked"}`, () => {
      assert.strictEqual(reasonNotToAsk({ ...step, ...over }), expected)
    })
  }
})

describe("decisionOfAnswer", () => {
  const faults: ReadonlyArray<StandingFault | null> = [null, "agreement", "false_approvals", "fallen"]
  it("an answer decides only what was earned for its kind; an unsure one and a sampled step decide nothing", () => {
    for (const approve of faults)
      for (const reject of faults) {
        const standing = { approve, reject }
        assert.strictEqual(
          decisionOfAnswer(standing, "approve", false),
          approve === null ? "allow" : undefined
        )
        assert.strictEqual(
          decisionOfAnswer(standing, "reject", false),
          reject === null ? "reject" : undefined
        )
        assert.strictEqual(decisionOfAnswer(standing, "unsure", false), undefined)
        for (const answer of ["approve", "reject", "unsure"] as const)
          assert.strictEqual(decisionOfAnswer(standing, answer, true), undefined)
        assert.strictEqual(hasEarnedSome(standing), approve === null || reject === null)
      }
  })
})
