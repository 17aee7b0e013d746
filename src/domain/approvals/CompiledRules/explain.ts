import type { RuleEffect } from "../ApprovalRule.ts"
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

const unjudgedTexts: Record<Unjudged, string> = {
  missing: "is missing",
  mistyped: "has another type than expected",
  empty: "is empty",
  too_large: "is too large",
  unsupported: "has a pattern that is not supported"
}

const placeOf = ({ pointer }: RuleCondition): string => {
  if (pointer === "") return "the value"
  return pointer.length <= MAX_POINTER ? pointer : `${pointer.slice(0, MAX_POINTER)}…`
}

const nameOf = (condition: RuleCondition): string => `${placeOf(condition)} ${condition.op}`
