import type { ApprovalRule } from "../../../domain/approvals/ApprovalRule.ts"
import { isDefaultQuorum } from "../../../domain/approvals/Quorum.ts"
import { DEFAULT_TERMS } from "../../../domain/approvals/Reviewer.ts"
import type { ReviewerTerms } from "../../../domain/approvals/Reviewer/reviewerStanding.ts"
import type { RuleReviewer } from "../../../domain/approvals/RuleReviewer.ts"
import type { TaskId } from "../../../domain/Ids.ts"

/** A rule that lets a reviewer model decide, with its number in the list. */
export interface RuleOfReviewer {
  readonly number: number
  readonly rule: ApprovalRule
  readonly reviewer: RuleReviewer
}

/** The rules that let a reviewer model decide. */
export const rulesOf = (rules: ReadonlyArray<ApprovalRule>, task_id: TaskId): ReadonlyArray<RuleOfReviewer> =>
  rules.flatMap((rule, index) =>
    rule.reviewer?.task_id === task_id ? [{ number: index + 1, rule, reviewer: rule.reviewer }] : []
  )

/** The strictest bounds of the rules that let a reviewer model decide; without one, the usual bounds. */
export const termsOfRules = (rules: ReadonlyArray<ApprovalRule>, task_id: TaskId): ReviewerTerms => {
  const given = rulesOf(rules, task_id).map(({ reviewer }) => reviewer)
  return given.length === 0
    ? DEFAULT_TERMS
    : {
        min_lower_bound: Math.max(...given.map(({ min_lower_bound }) => min_lower_bound)),
        max_false_approvals: Math.min(...given.map(({ max_false_approvals }) => max_false_approvals))
      }
}

/** Whether a rule may let a reviewer model decide. */
export const takesReviewer = ({
  effect,
  quorum,
  timeout_action
}: Pick<ApprovalRule, "effect" | "quorum" | "timeout_action">): boolean =>
  effect === "require_approval" && isDefaultQuorum(quorum) && timeout_action === "reject"
