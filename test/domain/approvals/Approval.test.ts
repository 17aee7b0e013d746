import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import { Approval, encodeWithoutArguments } from "../../../src/domain/approvals/Approval.ts"
import { pendingApproval } from "../../support/approvals.ts"

const pending: typeof Approval.Encoded = {
  ...pendingApproval,
  arguments: { amount: 25.5 },
  rule_summary: "Refund 25.50 EUR",
  agent_summary: "A small refund"
}

const escalated: typeof Approval.Encoded = {
  ...pending,
  task_id: `tsk_${"3".repeat(32)}`,
  status: "approved",
  stage: "admin",
  escalation_deadline_at: "2026-11-21T04:33:05.123Z",
  escalated_at: "2026-11-21T03:33:05.200Z",
  quorum: [{ count: 1, group: "finance" }],
  approvals_given: 1,
  votes: [
    {
      voted_by: { id: `key_${"4".repeat(32)}`, name: "Ada" },
      voted_at: "2026-11-21T03:40:00.000Z",
      groups: ["finance"],
      stage: "admin",
      comment: "Fine"
    }
  ],
  outcome: "allow",
  decision_source: "human",
  decided_at: "2026-11-21T03:40:00.000Z",
  decided_by: { id: `key_${"4".repeat(32)}`, name: "Ada" },
  comment: "Fine"
}

const rejected: typeof Approval.Encoded = {
  ...pending,
  status: "rejected",
  outcome: "reject",
  decision_source: "human",
  decided_at: "2026-11-21T02:40:00.000Z",
  decided_by: { id: `key_${"4".repeat(32)}`, name: "Ada" },
  proposal: { arguments: { amount: 20 }, expires_at: "2026-11-21T03:40:00.000Z", used_by: "step 2" }
}

describe("encodeWithoutArguments", () => {
  it.each([pending, escalated, rejected])(
    "the result equals the schema's encoding without the arguments and what tells of them: $status",
    (wire) => {
      const { agent_summary: _agent, arguments: _, proposal, rule_summary: _rule, ...others } = wire
      const shown = { expires_at: proposal?.expires_at, used_by: proposal?.used_by }
      assert.deepStrictEqual<unknown>(encodeWithoutArguments(Schema.decodeSync(Approval)(wire)), {
        ...others,
        proposal: proposal === null ? null : shown
      })
    }
  )
})
