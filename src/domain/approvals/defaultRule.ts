import { type ApprovalRule, DEFAULT_REVIEW_SECONDS } from "./ApprovalRule.ts"
import { DEFAULT_QUORUM } from "./Quorum.ts"

/** The members of a rule that may be left out, with the values that they then have. */
export const defaultRule: Omit<ApprovalRule, "id" | "effect"> = {
  tool: "*",
  action_class: "*",
  task_id: null,
  when: [],
  budgets: [],
  review_seconds: DEFAULT_REVIEW_SECONDS,
  expiring_seconds: null,
  escalation_seconds: null,
  timeout_action: "reject",
  self_approval: false,
  quorum: DEFAULT_QUORUM,
  require_comment: "never",
  retry_unknown: false,
  reviewer: null,
  reason: "",
  summary_template: null
}
