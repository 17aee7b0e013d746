import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import { Approval, encodeWithoutArguments } from "../../../src/domain/approvals/Approval.ts"

const pending: typeof Approval.Encoded = {
  approval_id: `apr_${"1".repeat(32)}`,
  session_id: `ses_${"2".repeat(32)}`,
  step_id: "step 1",
  task_id: null,
  tool: "payments.refund",
  action_class: "write",
  arguments: { amount: 25.5 },
  rule_summary: "Refund 25.50 EUR",
  agent_summary: "A small refund",
  arguments_digest: "0".repeat(64),
  status: "pending",
  stage: "reviewer",
  requested_at: "2026-11-21T02:33:05.123Z",
  review_deadline_at: "2026-11-21T03:33:05.123Z",
  escalation_deadline_at: null,
  expires_at: "2026-11-21T03:33:05.123Z",
  escalated_at: null,
  timeout_action: "reject",
  quorum: [{ count: 1, group: null }],
  approvals_required: 1,
  approvals_given: 0,
  votes: [],
  outcome: null,
  decision_source: null,
  decided_at: null,
  decided_by: null,
  comment: null,
  proposal: null
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
