/** Approval rules while they are edited, before they are saved. */
import { Effect } from "effect"
import type { NewApprovalRule } from "../../../api/ApprovalRules.ts"
import { type ApprovalRule, DEFAULT_REVIEW_SECONDS } from "../../../domain/approvals/ApprovalRule.ts"
import { DEFAULT_QUORUM } from "../../../domain/approvals/Quorum.ts"
import { RuleId } from "../../../domain/Ids.ts"

/** A rule in the edited list. A new rule has a temporary id until the server assigns one. */
export interface RuleDraft {
  readonly rule: ApprovalRule
  readonly isNew: boolean
}

/** The edited list: the loaded rules with their revision, and the current drafts. */
export interface RuleListDraft {
  readonly revision: number
  readonly before: ReadonlyArray<RuleDraft>
  readonly drafts: ReadonlyArray<RuleDraft>
}

/** Starts editing a loaded list. */
export const toRuleListDraft = (rules: ReadonlyArray<ApprovalRule>, revision: number): RuleListDraft => {
  const drafts = rules.map((rule): RuleDraft => ({ rule, isNew: false }))
  return { revision, before: drafts, drafts }
}

/** Whether the list differs from the loaded one. */ export const isChanged = ({
  before,
  drafts
}: RuleListDraft): boolean =>
  before.length !== drafts.length || drafts.some((draft, index) => draft !== before[index])

/** A new rule that requires approval for every step, with the API's default values. */
export const newRuleDraft = (): RuleDraft => ({
  isNew: true,
  rule: {
    id: Effect.runSync(RuleId.generate),
    tool: "*",
    action_class: "*",
    task_id: null,
    when: [],
    budgets: [],
    effect: "require_approval",
    review_seconds: DEFAULT_REVIEW_SECONDS,
    expiring_seconds: null,
    escalation_seconds: null,
    timeout_action: "reject",
    self_approval: false,
    retry_unknown: false,
    quorum: DEFAULT_QUORUM,
    reason: "",
    summary_template: null
  }
})

/** The rule as the API accepts it: without an id if it is new. */
export const toPayload = ({ isNew, rule }: RuleDraft): NewApprovalRule => {
  const { id, ...fields } = rule
  return isNew ? fields : { id, ...fields }
}

/** Moves one element of a list to another index. */
export const moveItem = <A>(list: ReadonlyArray<A>, from: number, to: number): ReadonlyArray<A> => {
  const element = list[from]
  if (element === undefined || to < 0 || to >= list.length) return list
  const rest = list.toSpliced(from, 1)
  return rest.toSpliced(to, 0, element)
}
