import type { Approval } from "../../src/domain/approvals/Approval.ts"

const at = "2026-11-21T02:33:05.123Z"
const end = "2026-11-21T03:33:05.123Z"

/** A pending approval as the API returns it. */
export const pendingApproval = {
  approval_id: `apr_${"1".repeat(32)}`,
  session_id: `ses_${"2".repeat(32)}`,
  step_id: "step 1",
  task_id: null,
  tool: "payments.refund",
  action_class: "write",
  rule_summary: null,
  agent_summary: null,
  arguments_digest: "0".repeat(64),
  status: "pending",
  stage: "reviewer",
  requested_at: at,
  review_deadline_at: end,
  escalation_deadline_at: null,
  expires_at: end,
  escalated_at: null,
  timeout_action: "reject",
  quorum: [{ count: 1, group: null }],
  approvals_required: 1,
  require_comment: "never",
  approvals_given: 0,
  votes: [],
  outcome: null,
  decision_source: null,
  decided_at: null,
  decided_by: null,
  comment: null,
  changes_requested: false,
  proposal: null
} as const satisfies typeof Approval.Encoded
