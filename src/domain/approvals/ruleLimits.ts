import { MAX_RULE_CONDITIONS, type RuleCondition } from "./RuleCondition.ts"

/** Most conditions of all rules together, with those on elements. */
const MAX_LIST_CONDITIONS = 10_000

/** A limit that a list of rules exceeds. */
export interface ExceededLimit {
  readonly pointer: string
  readonly detail: string
}

/** The number of conditions, with those on elements. */
export const countConditions = (conditions: ReadonlyArray<RuleCondition>): number => {
  let count = conditions.length
  for (const condition of conditions) {
    if (condition.op === "every" || condition.op === "some") count += countConditions(condition.value)
  }
  return count
}

/** The first limit on the number of conditions that the rules exceed. */
export const findExceededLimit = (
  rules: ReadonlyArray<{ readonly when: ReadonlyArray<RuleCondition> }>
): ExceededLimit | undefined => {
  let total = 0
  for (const [index, { when }] of rules.entries()) {
    if (when.length > MAX_RULE_CONDITIONS) {
      return {
        pointer: `#/rules/${index}/when`,
        detail: `Expected at most ${MAX_RULE_CONDITIONS} conditions.`
      }
    }
    total += countConditions(when)
  }
  return total > MAX_LIST_CONDITIONS
    ? {
        pointer: "#/rules",
        detail: `Expected at most ${MAX_LIST_CONDITIONS} conditions in all rules together.`
      }
    : undefined
}
