import type { ApprovalRule, RuleInput, Ruling } from "../../../domain/approvals/ApprovalRule.ts"
import { type BudgetMeter, fitsBudgets } from "../../../domain/approvals/BudgetMeter.ts"
import { type CompiledRules, compileRules } from "../../../domain/approvals/CompiledRules.ts"
import type { ShadowRuling } from "../../../domain/approvals/ShadowDifference.ts"
import type { Timestamp } from "../../../domain/Time.ts"

/** Rules that passed every check, compiled. */
export interface PreparedRules {
  readonly rules: ReadonlyArray<ApprovalRule>
  readonly compiled: CompiledRules
}

/** A list of rules that is evaluated beside the live one and not enforced. */
export interface ShadowList extends PreparedRules {
  /** When it was stored. */
  readonly since: Timestamp
}

/** The rules of an organization at one revision, with its shadow list. */
export interface RuleList extends PreparedRules {
  readonly revision: number
  readonly shadow: ShadowList | null
  /** Raised with each change of the shadow list, also when it is removed. */
  readonly shadow_revision: number
}

/** The lists of an organization that has none. */
export const noRules: RuleList = {
  rules: [],
  revision: 0,
  compiled: compileRules([]),
  shadow: null,
  shadow_revision: 0
}

/** Memory of both lists, for caches. */
export const weightOf = ({ compiled, shadow }: RuleList): number =>
  compiled.weight + (shadow?.compiled.weight ?? 0)

/** The ruling on a new step. */
export interface StepRuling {
  readonly ruling: Ruling
  /** Null without a shadow list. */
  readonly shadow: ShadowRuling | null
}

/** Every step fits: for lists without budgets. */
const noBudgets = { live: fitsBudgets, shadow: fitsBudgets }

/**
 * Evaluates both lists for a new step. The shadow list has a budget of its own, so that its ruling is the same as if it were live; the live
 * list is evaluated as if there were no other. The same holds for the counters of their budgets, which `meters` look up.
 */
export const ruleNewStep = (
  { compiled, shadow, shadow_revision }: RuleList,
  step: RuleInput,
  meters: { readonly live: BudgetMeter; readonly shadow: BudgetMeter } = noBudgets
): StepRuling => ({
  ruling: compiled.evaluate(step, meters.live),
  shadow:
    shadow === null
      ? null
      : { revision: shadow_revision, ruling: shadow.compiled.evaluate(step, meters.shadow) }
})
