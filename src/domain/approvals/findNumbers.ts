import type { ApprovalRule, RuleInput } from "./ApprovalRule.ts"
import { amountOf } from "./budgetUse.ts"
import { compileTextPattern } from "./CompiledRules/compileTextPattern.ts"
import { pointerSegments, resolvePointer } from "./CompiledRules/resolvePointer.ts"
import { MAX_WARNINGS, type RuleWarning } from "./ruleWarnings.ts"

/** Finds the sums of budgets whose pointers lead to a number in no step that the rule's patterns match. */
export interface NumberFinder {
  readonly look: (step: RuleInput) => void
  /** A warning for each sum without a number, if a step was looked at that the rule's patterns match. */
  readonly warnings: () => ReadonlyArray<RuleWarning>
}

/** Starts looking. */
export const makeNumberFinder = (
  rules: ReadonlyArray<Pick<ApprovalRule, "tool" | "action_class" | "task_id" | "budgets">>
): NumberFinder => {
  const missing = rules.flatMap(({ action_class, budgets, task_id, tool }, rule) =>
    budgets.flatMap(({ sum }, place) =>
      sum === null
        ? []
        : [
            {
              pointer: `#/rules/${rule}/budgets/${place}/sum/pointer`,
              path: sum.pointer,
              segments: pointerSegments(sum.pointer),
              task_id,
              matchesTool: compileTextPattern(tool),
              matchesClass: compileTextPattern(action_class),
              steps: 0,
              found: false
            }
          ]
    )
  )
  return {
    look: (step) => {
      for (const one of missing) {
        if (one.found || (one.task_id !== null && one.task_id !== step.task_id)) continue
        if (!one.matchesTool(step.tool) || !one.matchesClass(step.action_class)) continue
        one.steps++
        one.found = amountOf(resolvePointer(step.arguments, one.segments)) !== undefined
      }
    },
    warnings: () =>
      missing
        .flatMap(({ found, path, pointer, steps }) =>
          found || steps === 0
            ? []
            : [
                {
                  pointer,
                  detail: `None of ${steps} recorded ${steps === 1 ? "step" : "steps"} of this rule's tool has a number at "${path}", so the rule would have allowed none of them. Correct the pointer.`
                }
              ]
        )
        .slice(0, MAX_WARNINGS)
  }
}
