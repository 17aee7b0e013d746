import { Effect } from "effect"
import type { ApprovalRule } from "../../../domain/approvals/ApprovalRule.ts"
import { type CompiledRules, compileRulesInSteps } from "../../../domain/approvals/CompiledRules.ts"
import { nextTurn } from "../../admission/LoopTurns.ts"

/** Patterns that are compiled in one turn at the event loop: the largest take some milliseconds each. */
const PATTERNS_PER_TURN = 3

/** Compiles a list in turns, because hundreds of large patterns take hundreds of milliseconds. */
export const compileInTurns = Effect.fnUntraced(function* (
  rules: ReadonlyArray<ApprovalRule>
): Effect.fn.Return<CompiledRules> {
  const steps = compileRulesInSteps(rules)
  for (let patterns = 1; ; patterns++) {
    const step = steps.next()
    if (step.done === true) return step.value
    if (patterns % PATTERNS_PER_TURN === 0) yield* nextTurn
  }
})
