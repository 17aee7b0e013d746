/** Approval rules while they are edited, before they are saved. */
import { Effect, Schema } from "effect"
import type { NewApprovalRule } from "../../../api/ApprovalRules.ts"
import { type ApprovalRule, DEFAULT_REVIEW_SECONDS } from "../../../domain/approvals/ApprovalRule.ts"
import type { Approval } from "../../../domain/approvals/Approval.ts"
import { RuleCondition } from "../../../domain/approvals/RuleCondition.ts"
import { findCovering } from "../../../domain/approvals/ruleWarnings.ts"
import { isSecretName } from "../../../domain/redaction/Redaction/secretNames.ts"
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

/** Whether the list differs from the loaded one. */
export const isChanged = ({ before, drafts }: RuleListDraft): boolean =>
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
    require_comment: "never",
    retry_unknown: false,
    reviewer: null,
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

/** The most arguments that a rule for a decision compares. */
const MAX_COMPARED = 10

/** A rule that allows further steps like one: the same tool, class and task, and the same texts, numbers and truth values as arguments. */
export const ruleLike = ({
  action_class,
  arguments: given,
  task_id,
  tool
}: Pick<Approval, "tool" | "action_class" | "task_id" | "arguments">): RuleDraft => {
  const draft = newRuleDraft()
  const members =
    typeof given === "object" && given !== null && !Array.isArray(given) ? Object.entries(given) : []
  const when = members
    .filter(([name, value]) => typeof value !== "object" && !isSecretName(name))
    .slice(0, MAX_COMPARED)
    .map(([name, value]) => ({
      pointer: `/${name.replaceAll("~", "~0").replaceAll("/", "~1")}`,
      op: "equals" as const,
      value
    }))
    // A name with invisible characters has no pointer, and a very long text is no limit.
    .filter((condition) => isCondition(condition))
  return { ...draft, rule: { ...draft.rule, tool, action_class, task_id, when, effect: "allow" } }
}

const isCondition = Schema.is(RuleCondition)

/** Adds a rule at the end, or above the first rule that matches all its steps: below that one it would never be reached. */
export const addRule = (
  drafts: ReadonlyArray<RuleDraft>,
  draft: RuleDraft
): { readonly drafts: ReadonlyArray<RuleDraft>; readonly place: number } => {
  const covering = findCovering(
    drafts.map(({ rule }) => rule),
    draft.rule
  )
  const place = covering < 0 ? drafts.length : covering
  return { drafts: drafts.toSpliced(place, 0, draft), place }
}
