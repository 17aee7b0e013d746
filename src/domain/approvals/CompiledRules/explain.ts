import { BigDecimal } from "effect"
import type { RuleEffect } from "../ApprovalRule.ts"
import { describeScope, describeWindow } from "../RuleBudget.ts"
import type { BudgetMisfit } from "../BudgetMeter.ts"
import type { RuleCondition } from "../RuleCondition.ts"
import type { Unjudged } from "./compileCondition.ts"

/** Most conditions that a reason names. */
const MAX_NAMED = 3

/** Longest part of a pointer that a reason shows, in characters. */
const MAX_POINTER = 100

/** A condition of a rule, with the rule's number in the list, from 1. */
export interface ConditionOfRule {
  readonly number: number
  readonly condition: RuleCondition
}

/** Shown for a rule without a reason of its own. */
export const defaultReasons: Record<RuleEffect, string> = {
  allow: "A rule allows this step",
  reject: "A rule rejects this step",
  require_approval: "A rule requires approval by a person"
}

/**
 * Names the rule that decided, and its conditions. No values of the arguments or of the rule are shown: the reason is stored with
 * the step and sent to the agent.
 */
export const explainMatch = (number: number, conditions: ReadonlyArray<RuleCondition>): string => {
  const named = conditions.slice(0, MAX_NAMED).map(nameOf)
  const more = conditions.length - named.length
  const facts = [...named, ...(more > 0 ? [`${more} more`] : [])]
  return facts.length === 0 ? `(rule ${number})` : `(rule ${number}: ${facts.join(", ")})`
}

/** Says why a rule could not be judged. */
export const explainUnjudged = ({ condition, number }: ConditionOfRule, why: Unjudged): string =>
  `(rule ${number} cannot be judged, so a person must approve: ${placeOf(condition)} ${unjudgedTexts[why]})`

/** Says why the first rule that could have allowed the step does not match it. */
export const explainNotAllowed = (
  { condition, number }: ConditionOfRule,
  judgement: Unjudged | "fails"
): string =>
  judgement === "fails"
    ? `(rule ${number} does not allow it: ${nameOf(condition)})`
    : `(rule ${number} does not allow it: ${placeOf(condition)} ${unjudgedTexts[judgement]})`

/** Says which budget of a rule a step does not fit, with its figures. */
export const explainMisfit = (number: number, misfit: BudgetMisfit): string =>
  `(rule ${number} does not allow it: ${describeMisfit(misfit)})`

const describeMisfit = (misfit: BudgetMisfit): string => {
  if (misfit.why === "value") return `${shortPointer(misfit.pointer)} ${misfitTexts[misfit.fault]}`
  if (misfit.why === "too_many_counters") return "this organization has too many different budgets in use"
  if (misfit.why === "not_counted") return "its budget does not count this step"
  const { amount, budget, exceeded } = misfit
  const place = `its budget ${describeScope(budget)} in ${describeWindow(budget.window_seconds)}`
  if (exceeded.limit === "count") return `${place} is used up: ${exceeded.used} of ${budget.count} steps`
  const { at_most, pointer } = budget.sum ?? { at_most: 0, pointer: "" }
  const figures = [exceeded.used, BigDecimal.fromNumberUnsafe(at_most), amount].map(BigDecimal.format)
  return `${place} has ${figures[0]} of ${figures[1]} of ${shortPointer(pointer)} used, and this step needs ${figures[2]}`
}

const misfitTexts = {
  missing: "is missing",
  mistyped: "is not a number",
  negative: "is negative",
  not_scalar: "is not a text, a number or a boolean"
}

const unjudgedTexts: Record<Unjudged, string> = {
  missing: "is missing",
  mistyped: "has another type than expected",
  empty: "is empty",
  too_large: "is too large",
  unsupported: "has a pattern that is not supported"
}

const placeOf = ({ pointer }: RuleCondition): string => shortPointer(pointer)

const shortPointer = (pointer: string): string => {
  if (pointer === "") return "the value"
  return pointer.length <= MAX_POINTER ? pointer : `${pointer.slice(0, MAX_POINTER)}…`
}

const nameOf = (condition: RuleCondition): string => `${placeOf(condition)} ${condition.op}`
