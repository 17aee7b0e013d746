import { assert, describe, it } from "@effect/vitest"
import { DateTime } from "effect"
import { ApprovalId, KeyId, OrgId, SessionId, StepId } from "../../../../src/domain/Ids.ts"
import { type ApprovalRow, withoutProposal } from "../../../../src/server/approvals/approvalRows.ts"
import { makePendingApprovals } from "../../../../src/server/approvals/SessionWriter/PendingApprovals.ts"

const at = (seconds: number) => DateTime.makeUnsafe(seconds * 1_000)
const hex = (digit: string) => digit.repeat(32)

/** Requested at 0, with a warning after 60 of 100 seconds. */
const pending = (digit: string, argumentsText: string | null = null): ApprovalRow => ({
  org_id: OrgId.make(`org_${hex("a")}`),
  approval_id: ApprovalId.make(`apr_${hex(digit)}`),
  session_id: SessionId.make(`ses_${hex("b")}`),
  step_id: StepId.make("step"),
  task_id: null,
  tool: "send_payment",
  action_class: "write",
  arguments: argumentsText,
  arguments_digest: "digest",
  rule_summary: null,
  agent_summary: null,
  arguments_line: null,
  status: "pending",
  stage: "reviewer",
  requested_at: at(0),
  requested_by_id: KeyId.make(`key_${hex("c")}`),
  review_deadline_at: at(100),
  escalation_deadline_at: null,
  expires_at: at(100),
  expiring_seconds: 40,
  expiring_notified: false,
  escalated_at: null,
  timeout_action: "reject",
  self_approval: false,
  require_comment: "never",
  quorum: null,
  votes: null,
  outcome: null,
  decision_source: null,
  decided_at: null,
  decided_by_id: null,
  decided_by_name: null,
  comment: null,
  changes_requested: false,
  ...withoutProposal
})

describe("PendingApprovals", () => {
  it("an approval is found by its organization until its first transition by time is due", () => {
    const approvals = makePendingApprovals()
    const row = pending("1")
    approvals.add(row)
    assert.strictEqual(approvals.find(row, at(59)), row)
    const other = OrgId.make(`org_${hex("d")}`)
    assert.isUndefined(approvals.find({ ...row, org_id: other }, at(59)))
    assert.isUndefined(approvals.find(row, at(60)))
    assert.isUndefined(approvals.find(row, at(59)))
  })

  it("large arguments evict the approvals that were requested before", () => {
    const approvals = makePendingApprovals()
    const [first, second] = [pending("1"), pending("2", "x".repeat(2 * 1024 * 1024 - 600))]
    approvals.add(first)
    approvals.add(second)
    assert.isUndefined(approvals.find(first, at(1)))
    assert.strictEqual(approvals.find(second, at(1)), second)
  })
})
