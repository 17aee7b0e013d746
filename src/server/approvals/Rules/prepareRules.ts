import { Effect, Result } from "effect"
import type { SqlClient } from "effect/sql"
import { MAX_RULES, type NewApprovalRule } from "../../../api/ApprovalRules.ts"
import { completeRule } from "../../../api/completeRule.ts"
import type { FieldError } from "../../../api/Problem.ts"
import { InvalidRequest, RulesTooLarge, UnknownGroup } from "../../../api/Problems.ts"
import type { ApprovalRule } from "../../../domain/approvals/ApprovalRule.ts"
import { compileBudget } from "../../../domain/approvals/BudgetMeter.ts"
import { approvalsRequired, isDefaultQuorum, MAX_APPROVALS } from "../../../domain/approvals/Quorum.ts"
import { findExceededLimit } from "../../../domain/approvals/ruleLimits.ts"
import { formatTemplateFault, parseSummaryTemplate } from "../../../domain/approvals/SummaryTemplate.ts"
import { describeFirst } from "../../../domain/describeIssue.ts"
import { type OrgId, RuleId } from "../../../domain/Ids.ts"
import type { Timestamp } from "../../../domain/Time.ts"
import { findDecidingGroups } from "../../identity/findDecidingGroups.ts"
import { textArray } from "../../store/pgArrays.ts"
import { compileInTurns } from "./compileInTurns.ts"
import type { PreparedRules } from "./RuleList.ts"

/** Most errors that one problem lists. */
const MAX_ERRORS = 20

/** Fills in the defaults of a list and compiles it, or fails with its faults. */
export const prepareRules = Effect.fnUntraced(function* (
  given: ReadonlyArray<NewApprovalRule>
): Effect.fn.Return<PreparedRules, InvalidRequest | RulesTooLarge> {
  if (given.length > MAX_RULES) {
    return yield* tooLarge({ pointer: "#/rules", detail: `Expected at most ${MAX_RULES} rules.` })
  }
  const rules = yield* Effect.forEach(given, withDefaults)
  const exceeded = findExceededLimit(rules)
  if (exceeded !== undefined) return yield* tooLarge(exceeded)
  const compiled = yield* compileInTurns(rules)
  if (compiled.exceeded !== undefined) return yield* tooLarge(compiled.exceeded)
  const errors = [...findDoubleBudgets(given), ...findInconsistencies(rules), ...compiled.faults]
  return errors.length === 0
    ? { rules, compiled }
    : yield* new InvalidRequest({
        detail: `The rules are invalid: ${describeFirst(errors)}`,
        errors: errors.slice(0, MAX_ERRORS)
      })
})

const tooLarge = (error: FieldError) =>
  new RulesTooLarge({
    detail: `The list of rules exceeds a limit: ${describeFirst([error])}`,
    errors: [error]
  })

/**
 * Fails if a rule that is stored with conditions, budgets or a quorum is sent without the member: a client that does not know the member would
 * remove it, and a rule that allows would match every step, or one person would suffice.
 */
export const requireKnownMembers = (
  given: ReadonlyArray<NewApprovalRule>,
  stored: ReadonlyArray<ApprovalRule>
): Effect.Effect<void, InvalidRequest> => {
  const storedById = new Map(stored.map((rule) => [rule.id, rule]))
  const errors = given.flatMap(({ budget, budgets, id, quorum, when }, index): ReadonlyArray<FieldError> => {
    const rule = id === undefined ? undefined : storedById.get(id)
    if (rule === undefined) return []
    const losesConditions = when === undefined && rule.when.length > 0
    const losesBudgets = budget === undefined && budgets === undefined && rule.budgets.length > 0
    const losesQuorum = quorum === undefined && !isDefaultQuorum(rule.quorum)
    return [
      ...(losesConditions
        ? [
            {
              pointer: `#/rules/${index}/when`,
              detail: "The stored rule has conditions. Send them, or an empty list to remove them."
            }
          ]
        : []),
      ...(losesBudgets
        ? [
            {
              pointer: `#/rules/${index}/budgets`,
              detail: "The stored rule has budgets. Send them, or an empty list to remove them."
            }
          ]
        : []),
      ...(losesQuorum
        ? [
            {
              pointer: `#/rules/${index}/quorum`,
              detail: 'The stored rule has a quorum. Send it, or [{"count":1}] for one approval.'
            }
          ]
        : [])
    ]
  })
  return errors.length === 0
    ? Effect.void
    : new InvalidRequest({
        detail: `A rule is sent without its conditions, its budgets or its quorum: ${describeFirst(errors)}`,
        errors: errors.slice(0, MAX_ERRORS)
      })
}

/** Fails if a rule names a task that does not exist: a mistyped id would leave the task to the rules below. */
export const requireTasks = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  rules: ReadonlyArray<ApprovalRule>
) {
  const named = [...new Set(rules.flatMap(({ task_id }) => (task_id === null ? [] : [task_id])))]
  if (named.length === 0) return
  const rows = yield* sql<{ readonly task_id: string }>`
    SELECT task_id
    FROM tasks
    WHERE org_id = ${org_id}
      AND task_id = ANY (${textArray(named)})
  `
  const known = new Set(rows.map(({ task_id }) => task_id))
  const errors = rules.flatMap(({ task_id }, index): ReadonlyArray<FieldError> =>
    task_id === null || known.has(task_id)
      ? []
      : [{ pointer: `#/rules/${index}/task_id`, detail: "No such task in this organization." }]
  )
  if (errors.length > 0) {
    const detail = `A rule names a task that does not exist: ${describeFirst(errors)}`
    return yield* new InvalidRequest({ detail, errors })
  }
})

/** Fails if a rule names a reviewer that does not exist: a mistyped id would never decide, without notice. */
export const requireReviewers = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  rules: ReadonlyArray<ApprovalRule>
) {
  const named = [...new Set(rules.flatMap(({ reviewer }) => (reviewer === null ? [] : [reviewer.task_id])))]
  if (named.length === 0) return
  const rows = yield* sql<{ readonly task_id: string }>`
    SELECT task_id
    FROM reviewers
    WHERE org_id = ${org_id}
      AND task_id = ANY (${textArray(named)})
  `
  const known = new Set(rows.map(({ task_id }) => task_id))
  const errors = rules.flatMap(({ reviewer }, index): ReadonlyArray<FieldError> =>
    reviewer === null || known.has(reviewer.task_id)
      ? []
      : [
          {
            pointer: `#/rules/${index}/reviewer/task_id`,
            detail: "No such reviewer in this organization. Create it with POST /v1/reviewers."
          }
        ]
  )
  if (errors.length > 0) {
    const detail = `A rule names a reviewer that does not exist: ${describeFirst(errors)}`
    return yield* new InvalidRequest({ detail, errors })
  }
})

/** Fails if a quorum names a group whose members cannot decide: a mistyped name would leave the step to the timeout. */
export const requireGroups = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  rules: ReadonlyArray<ApprovalRule>,
  now: Effect.Effect<Timestamp>
) {
  const parts = rules.flatMap(({ quorum }, rule) =>
    quorum.flatMap(({ group }, part) =>
      group === null ? [] : [{ group, pointer: `#/rules/${rule}/quorum/${part}/group` }]
    )
  )
  if (parts.length === 0) return
  const known = yield* findDecidingGroups(sql, org_id, yield* now)
  const errors = parts.flatMap(({ group, pointer }): ReadonlyArray<FieldError> =>
    known.has(group) ? [] : [{ pointer, detail: "No usable API key with approvals.decide has this group." }]
  )
  if (errors.length > 0) {
    const detail = `A quorum names an unusable group: ${describeFirst(errors)} Create a key with the group first.`
    return yield* new UnknownGroup({ detail, errors })
  }
})

/** Errors of a list whose rules are each valid by their schema. */
const findInconsistencies = (rules: ReadonlyArray<ApprovalRule>): ReadonlyArray<FieldError> => {
  const ids = new Set<RuleId>()
  const errors: Array<FieldError> = []
  for (const [index, rule] of rules.entries()) {
    if (ids.has(rule.id)) errors.push({ pointer: `#/rules/${index}/id`, detail: "Another rule has this id." })
    ids.add(rule.id)
    if (rule.expiring_seconds !== null && rule.expiring_seconds >= rule.review_seconds) {
      errors.push({
        pointer: `#/rules/${index}/expiring_seconds`,
        detail: "Expected less than review_seconds."
      })
    }
    if (approvalsRequired(rule.quorum) > MAX_APPROVALS) {
      errors.push({
        pointer: `#/rules/${index}/quorum`,
        detail: `Expected at most ${MAX_APPROVALS} approvals in all.`
      })
    }
    errors.push(...findBudgetFaults(rule, index), ...findReviewerFaults(rule, index))
    const template = rule.summary_template === null ? undefined : parseSummaryTemplate(rule.summary_template)
    if (template !== undefined && Result.isFailure(template)) {
      errors.push({
        pointer: `#/rules/${index}/summary_template`,
        detail: formatTemplateFault(template.failure)
      })
    }
    const groups = rule.quorum.map(({ group }) => group)
    const repeated = groups.findIndex((group, part) => groups.indexOf(group) < part)
    if (repeated >= 0) {
      errors.push({
        pointer: `#/rules/${index}/quorum/${repeated}/group`,
        detail: "Another part of the quorum has this group. Give one part the sum of their counts."
      })
    }
  }
  return errors
}

/** Rules whose budgets are given twice. */
const findDoubleBudgets = (given: ReadonlyArray<NewApprovalRule>): ReadonlyArray<FieldError> =>
  given.flatMap(({ budget, budgets }, index) =>
    budget === undefined || budgets === undefined
      ? []
      : [{ pointer: `#/rules/${index}/budget`, detail: "Give `budget` or `budgets`, not both." }]
  )

/** Budgets that can never be used, or that would be counted twice. */
const findBudgetFaults = ({ budgets, effect }: ApprovalRule, index: number): ReadonlyArray<FieldError> => {
  const errors: Array<FieldError> = []
  const counters = budgets.map((budget) => compileBudget(budget).name)
  if (budgets.length > 0 && effect !== "allow") {
    errors.push({
      pointer: `#/rules/${index}/budgets`,
      detail: "Only a rule that allows has budgets: what it does not allow goes on to the next rule."
    })
  }
  for (const [place, { by, count, sum }] of budgets.entries()) {
    const pointer = `#/rules/${index}/budgets/${place}`
    if (count === null && sum === null)
      errors.push({ pointer, detail: "Expected `count`, `sum` or both: without a limit every step fits." })
    if (new Set(by).size < by.length)
      errors.push({ pointer: `${pointer}/by`, detail: "Expected each pointer once." })
    if (counters.indexOf(counters[place] ?? "") < place) {
      errors.push({
        pointer,
        detail:
          "Another budget of the rule has the same scope, window and pointers. Put both limits into one."
      })
    }
  }
  return errors
}

/** A reviewer on a rule whose steps it must not decide, or whose bounds contradict each other. */
const findReviewerFaults = (
  { effect, quorum, reviewer, timeout_action }: ApprovalRule,
  index: number
): ReadonlyArray<FieldError> => {
  if (reviewer === null) return []
  const pointer = `#/rules/${index}/reviewer`
  const faults = [
    effect !== "require_approval" && {
      pointer,
      detail: "Only a rule that requires approval has a reviewer: another decides by itself."
    },
    !isDefaultQuorum(quorum) && {
      pointer,
      detail: "A rule with a quorum has no reviewer: a model does not count as one of the people."
    },
    timeout_action === "allow" && {
      pointer,
      detail:
        "A rule with a reviewer rejects on a timeout: otherwise a step about which the model is unsure would be allowed because nobody looks."
    },
    reviewer.max_false_approvals + reviewer.min_lower_bound >= 1 && {
      pointer: `${pointer}/max_false_approvals`,
      detail: "Expected less than 1 - min_lower_bound: a wrong approval weighs more than a wrong rejection."
    }
  ]
  return faults.filter((fault) => fault !== false)
}

/** A rule with its defaults. */
const withDefaults = (rule: NewApprovalRule): Effect.Effect<ApprovalRule> =>
  Effect.map(rule.id === undefined ? RuleId.generate : Effect.succeed(rule.id), (id) => ({
    id,
    ...completeRule(rule)
  }))
