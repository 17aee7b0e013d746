/** Rules as they are edited, before they are saved. */
import { Effect } from "effect"
import type { NewApprovalRule } from "../../../api/ApprovalRules.ts"
import { type ApprovalRule, DEFAULT_REVIEW_SECONDS } from "../../../domain/approvals/ApprovalRule.ts"
import { RuleId } from "../../../domain/Ids.ts"

/** A rule of the list that is edited. A new one has an id of this page's own until the service gives it one. */
export interface RuleDraft {
  readonly rule: ApprovalRule
  readonly isNew: boolean
}

/** The list as it was read, and as it is now. */
export interface RuleListDraft {
  readonly revision: number
  readonly before: ReadonlyArray<RuleDraft>
  readonly drafts: ReadonlyArray<RuleDraft>
}

/** A list that nobody has changed yet. */
export const toRuleListDraft = (rules: ReadonlyArray<ApprovalRule>, revision: number): RuleListDraft => {
  const drafts = rules.map((rule): RuleDraft => ({ rule, isNew: false }))
  return { revision, before: drafts, drafts }
}

export const isChanged = ({ before, drafts }: RuleListDraft): boolean =>
  before.length !== drafts.length || drafts.some((draft, index) => draft !== before[index])

/** A rule that asks a person for every step, with the contract's defaults. */
export const newRuleDraft = (): RuleDraft => ({
  isNew: true,
  rule: {
    id: Effect.runSync(RuleId.generate),
    tool: "*",
    action_class: "*",
    task_id: null,
    effect: "require_approval",
    review_seconds: DEFAULT_REVIEW_SECONDS,
    expiring_seconds: null,
    escalation_seconds: null,
    timeout_action: "reject",
    self_approval: false,
    reason: ""
  }
})

/** The rule as it is sent: a new one gets its id from the service. */
export const toPayload = ({ isNew, rule }: RuleDraft): NewApprovalRule => {
  const { id, ...fields } = rule
  return isNew ? fields : { id, ...fields }
}

/** The list with one element at another place. */
export const moveItem = <A>(list: ReadonlyArray<A>, from: number, to: number): ReadonlyArray<A> => {
  const element = list[from]
  if (element === undefined || to < 0 || to >= list.length) return list
  const rest = list.toSpliced(from, 1)
  return rest.toSpliced(to, 0, element)
}
