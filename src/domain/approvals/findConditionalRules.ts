import type { ApprovalRule } from "./ApprovalRule.ts"
import { compileTextPattern } from "./CompiledRules/compileTextPattern.ts"

/** A rule with its place in the list, 1 for the first. */
interface NumberedRule extends Pick<ApprovalRule, "id" | "effect" | "when"> {
  readonly number: number
}

/** The most rules that are found. */
const MAX_RULES = 5

/**
 * Finds the rules with conditions that are for a step's tool, class and task, so that a person sees which limits it does not keep. `decided`:
 * the index of the rule that decided; later ones were not evaluated. -1: no rule did, or the list no longer has it.
 */
export const findConditionalRules = (
  rules: ReadonlyArray<Pick<ApprovalRule, "id" | "tool" | "action_class" | "task_id" | "effect" | "when">>,
  step: Pick<ApprovalRule, "tool" | "action_class" | "task_id">,
  decided: number
): ReadonlyArray<NumberedRule> =>
  rules
    .slice(0, decided < 0 ? rules.length : decided + 1)
    .map(({ action_class, effect, id, task_id, tool, when }, index) => ({
      isForStep:
        when.length > 0 &&
        (task_id === null || task_id === step.task_id) &&
        compileTextPattern(tool)(step.tool) &&
        compileTextPattern(action_class)(step.action_class),
      rule: { id, number: index + 1, effect, when }
    }))
    .filter(({ isForStep }) => isForStep)
    .slice(0, MAX_RULES)
    .map(({ rule }) => rule)
