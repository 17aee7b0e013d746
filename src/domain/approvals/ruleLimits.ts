import type { ApprovalRule } from "./ApprovalRule.ts"
import { compileTextPattern } from "./CompiledRules/compileTextPattern.ts"
import { approvalsRequired, MAX_APPROVALS, MAX_QUORUM_PARTS, type Quorum, uniteQuorums } from "./Quorum.ts"
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

/** The first limit on conditions and approvals that the rules exceed. */
export const findExceededLimit = (rules: ReadonlyArray<ApprovalRule>): ExceededLimit | undefined => {
  let total = 0
  for (const [index, { reviewer, when }] of rules.entries()) {
    const lists = { when, "reviewer/never": reviewer?.never ?? [] }
    for (const [member, conditions] of Object.entries(lists)) {
      if (conditions.length > MAX_RULE_CONDITIONS) {
        return {
          pointer: `#/rules/${index}/${member}`,
          detail: `Expected at most ${MAX_RULE_CONDITIONS} conditions.`
        }
      }
      total += countConditions(conditions)
    }
  }
  return total > MAX_LIST_CONDITIONS
    ? {
        pointer: "#/rules",
        detail: `Expected at most ${MAX_LIST_CONDITIONS} conditions in all rules together.`
      }
    : findExcessiveQuestion(rules)
}

/** The first rule that, if it cannot be judged, asks for more than a quorum can have, together with the rules that could match instead. */
const findExcessiveQuestion = (rules: ReadonlyArray<ApprovalRule>): ExceededLimit | undefined => {
  if (!isExcessive(rules.map(({ quorum }) => quorum).reduce(uniteQuorums, []))) return undefined
  const targets = rules.map((rule) => ({ rule, tool: globOf(rule.tool), class: globOf(rule.action_class) }))
  for (const [index, first] of targets.entries()) {
    let { quorum } = first.rule
    if (first.rule.when.length === 0 || first.rule.effect === "allow") continue
    for (const next of targets.slice(index + 1)) {
      const { effect, task_id, when } = next.rule
      if (task_id !== null && first.rule.task_id !== null && task_id !== first.rule.task_id) continue
      if (!overlap(first.tool, next.tool) || !overlap(first.class, next.class)) continue
      const asks = effect === "require_approval" || (effect === "reject" && when.length > 0)
      if (asks) quorum = uniteQuorums(quorum, next.rule.quorum)
      // A `*` of the other pattern is matched only by one of this pattern, so that this one matches whatever the other does.
      const isLast =
        when.length === 0 &&
        next.rule.budgets.length === 0 &&
        (task_id === null || task_id === first.rule.task_id) &&
        next.tool.matches(first.rule.tool) &&
        next.class.matches(first.rule.action_class)
      if (isLast) break
    }
    if (isExcessive(quorum)) {
      return {
        pointer: `#/rules/${index}/when`,
        detail: `If it cannot be judged, the question needs the approvals of every rule that could match instead. Expected at most ${MAX_APPROVALS} in all, in ${MAX_QUORUM_PARTS} parts.`
      }
    }
  }
  return undefined
}

const isExcessive = (quorum: Quorum): boolean =>
  quorum.length > MAX_QUORUM_PARTS || approvalsRequired(quorum) > MAX_APPROVALS

interface Glob {
  readonly pattern: string
  readonly matches: (text: string) => boolean
  /** The text before its first `*` and after its last one. Without `*`: undefined. */
  readonly ends: readonly [head: string, tail: string] | undefined
}

const globOf = (pattern: string): Glob => {
  const parts = pattern.split("*")
  const ends = parts.length === 1 ? undefined : ([parts[0] ?? "", parts.at(-1) ?? ""] as const)
  return { pattern, matches: compileTextPattern(pattern), ends }
}

/** Whether a text matches both: of two patterns with `*`, one that has their beginnings and ends, and all other parts between. */
const overlap = (left: Glob, right: Glob): boolean => {
  if (left.ends === undefined) return right.matches(left.pattern)
  if (right.ends === undefined) return left.matches(right.pattern)
  const [head, tail] = left.ends
  const [otherHead, otherTail] = right.ends
  return (
    (head.startsWith(otherHead) || otherHead.startsWith(head)) &&
    (tail.endsWith(otherTail) || otherTail.endsWith(tail))
  )
}
