import { assert, describe, it } from "@effect/vitest"
import { DateTime } from "effect"
import type { Ruling } from "../../../src/domain/approvals/ApprovalRule.ts"
import { currentDecision, stepMismatches } from "../../../src/domain/approvals/StepDecision.ts"
import { ApprovalId, KeyId, ReleaseId, RuleId, StepId, TaskId } from "../../../src/domain/Ids.ts"

const saved = {
  step_id: StepId.make("refund"),
  tool: "payments.refund",
  action_class: "write",
  arguments_digest: "digest of payments.refund as write",
  rule_id: null,
  decision: "pending" as const,
  reason: "No rule matches; a person must approve",
  approval_id: ApprovalId.make(`apr_${"a".repeat(32)}`),
  proposal_approval_id: null,
  grant_id: null,
  reviewer: null
}

const ruling = (effect: Ruling["effect"]): Ruling => ({
  rule_id: RuleId.make(`rul_${"b".repeat(32)}`),
  effect,
  reason: `now ${effect}`,
  terms: {
    review_seconds: 60,
    expiring_seconds: null,
    escalation_seconds: null,
    timeout_action: "reject",
    self_approval: false,
    quorum: [{ count: 1, group: null }],
    require_comment: "never"
  }
})

const expires_at = DateTime.makeUnsafe("2026-11-23T00:00:00Z")

const ada = { id: KeyId.make("key_00000000000070008000000000000001"), name: "Ada" }

describe("currentDecision", () => {
  it("a rule that rejects now overrides an approval, also one that a person gave", () => {
    const approved = {
      outcome: "allow" as const,
      expires_at,
      decision_source: "human" as const,
      decided_by: ada,
      comment: "Too much",
      changes_requested: false,
      proposal: null
    }
    for (const approval of [null, approved, { ...approved, outcome: null, decision_source: null }]) {
      const answer = currentDecision(saved, approval, ruling("reject"))
      // The person is not named for what a rule rejected.
      assert.deepInclude(answer, {
        decision: "reject",
        reason: "now reject",
        decided_by: null,
        comment: null
      })
    }
  })

  it("a rule that allows now does not replace the decision of a person", () => {
    const open = {
      outcome: null,
      expires_at,
      decision_source: null,
      decided_by: null,
      comment: null,
      changes_requested: false,
      proposal: null
    }
    assert.deepInclude(currentDecision(saved, open, ruling("allow")), { decision: "pending", expires_at })
    const rejected = {
      outcome: "reject" as const,
      expires_at,
      decision_source: "human" as const,
      decided_by: ada,
      comment: "Too much",
      changes_requested: false,
      proposal: null
    }
    assert.deepInclude(currentDecision(saved, rejected, ruling("allow")), {
      decision: "reject",
      decided_by: ada,
      comment: "Too much"
    })
  })
})

describe("currentDecision › requested changes", () => {
  it("the answer has the instruction, and says that a person requests changes", () => {
    const answer = currentDecision(
      saved,
      {
        outcome: "reject",
        expires_at,
        decision_source: "human",
        decided_by: ada,
        comment: "At most 20",
        changes_requested: true,
        proposal: null
      },
      ruling("require_approval")
    )
    assert.deepInclude(answer, {
      decision: "reject",
      changes_requested: true,
      comment: "At most 20",
      reason: "A person requests changes"
    })
  })
})

describe("currentDecision › counter-proposals", () => {
  const proposal = { arguments: { amount: 20 }, expires_at, used_by: null }
  const rejected = {
    outcome: "reject" as const,
    expires_at,
    decision_source: "human" as const,
    decided_by: ada,
    comment: null,
    changes_requested: false,
    proposal
  }

  it("a step that was rejected with a proposal shows it, also if the rules reject it meanwhile", () => {
    for (const effect of ["require_approval", "reject"] as const) {
      const answer = currentDecision(saved, rejected, ruling(effect))
      assert.deepInclude(answer, { decision: "reject", proposal })
      assert.strictEqual(answer.decision_source, effect === "reject" ? "rule" : "human")
    }
  })

  it("a step that a proposal allowed names the rejected approval, and a rule that rejects wins", () => {
    const allowed = {
      ...saved,
      decision: "allow" as const,
      approval_id: null,
      proposal_approval_id: saved.approval_id
    }
    assert.deepInclude(currentDecision(allowed, null, ruling("require_approval")), {
      decision: "allow",
      approval_id: saved.approval_id,
      decision_source: "counter_proposal",
      changes_requested: false,
      proposal: null
    })
    assert.deepInclude(currentDecision(allowed, null, ruling("reject")), {
      decision: "reject",
      decision_source: "rule",
      reason: "now reject"
    })
  })

  it("a step that a reviewer model decided keeps its decision under rules that ask, and a rule that rejects wins", () => {
    const reviewer = {
      task_id: TaskId.make(`tsk_${"c".repeat(32)}`),
      release_id: ReleaseId.make(`rel_${"d".repeat(32)}`),
      reason: "Small"
    }
    const allowed = { ...saved, decision: "allow" as const, approval_id: null, reviewer }
    assert.deepInclude(currentDecision(allowed, null, ruling("require_approval")), {
      decision: "allow",
      approval_id: null,
      decision_source: "model",
      reviewer
    })
    const rejected = currentDecision(allowed, null, ruling("reject"))
    assert.deepInclude(rejected, { decision: "reject", decision_source: "rule" })
    assert.notProperty(rejected, "reviewer")
  })
})

describe("stepMismatches", () => {
  const digest =
    (content: string) =>
    ({ action_class, tool }: { readonly tool: string; readonly action_class: string }): string =>
      `digest of ${tool} as ${action_class}${content}`

  it("each part in which a repeated step differs is named", () => {
    assert.deepStrictEqual(stepMismatches(saved, saved, digest("")), [])
    assert.deepStrictEqual(stepMismatches(saved, saved, digest(" of another order")), ["arguments"])
    const other = { tool: "payments.pay", action_class: "read" }
    assert.deepStrictEqual(stepMismatches(saved, other, digest("")), ["tool", "action_class"])
  })
})
