import type { ApprovalRule } from "../domain/approvals/ApprovalRule.ts"
import { defaultBudget, type RuleBudget } from "../domain/approvals/RuleBudget.ts"
import { defaultRuleReviewer } from "../domain/approvals/RuleReviewer.ts"
import { defaultRule } from "../domain/approvals/defaultRule.ts"
import type { QuorumPart } from "../domain/approvals/Quorum.ts"
import type { NewApprovalRule, NewQuorumPart, NewRuleBudget } from "./ApprovalRules.ts"

/** A rule with its defaults, without its id. */
export const completeRule = ({
  budget,
  budgets = budget === undefined ? [] : [budget],
  id: _,
  quorum,
  reviewer = null,
  ...rule
}: NewApprovalRule): Omit<ApprovalRule, "id"> => ({
  ...defaultRule,
  ...rule,
  budgets: budgets.map(completeBudget),
  reviewer: reviewer === null ? null : { ...defaultRuleReviewer, ...reviewer },
  ...(quorum === undefined ? {} : { quorum: quorum.map(completePart) })
})

const completeBudget = ({ per, window_seconds, ...limits }: NewRuleBudget): RuleBudget => ({
  per,
  window_seconds,
  ...defaultBudget,
  ...limits
})

const completePart = ({ count = 1, group = null }: NewQuorumPart): QuorumPart => ({ count, group })
