import { DateTime, Effect } from "effect"
import type { SqlClient } from "effect/sql"
import type { ApprovalRule } from "../../../domain/approvals/ApprovalRule.ts"
import { makeNumberFinder } from "../../../domain/approvals/findNumbers.ts"
import { findRuleWarnings, type RuleWarning } from "../../../domain/approvals/ruleWarnings.ts"
import type { OrgId } from "../../../domain/Ids.ts"
import type { Timestamp } from "../../../domain/Time.ts"
import { readSteps } from "../RuleTests/readSteps.ts"
import { parseArguments } from "../parseArguments.ts"

/** The recorded steps that are looked at: one page of the newest, of these days. */
const LOOKED_AT_DAYS = 30

/** The warnings about a list, also about recorded steps: a sum of a budget whose pointer leads to no number. */
export const warningsOf = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  rules: ReadonlyArray<ApprovalRule>,
  now: Effect.Effect<Timestamp>
): Effect.fn.Return<ReadonlyArray<RuleWarning>> {
  const warnings = findRuleWarnings(rules)
  if (!rules.some(({ budgets }) => budgets.some(({ sum }) => sum !== null))) return warnings
  const until = yield* now
  const since = DateTime.subtract(until, { days: LOOKED_AT_DAYS })
  const window = { org_id, since, until, withArguments: true, inOrder: false }
  const numbers = makeNumberFinder(rules)
  const steps = yield* Effect.orDie(readSteps(sql, window, undefined))
  for (const { action_class, arguments: text, has_arguments, task_id, tool } of steps) {
    // Large arguments are not read.
    if (text === null && has_arguments) continue
    const args = text === null ? undefined : parseArguments(text)
    numbers.look({ tool, action_class, task_id, arguments: args })
  }
  return [...warnings, ...numbers.warnings()]
})
