import { Schema } from "effect"
import type { ApprovalRule } from "./ApprovalRule.ts"
import { compileTextPattern } from "./CompiledRules/compileTextPattern.ts"

/** Most warnings about one list. */
export const MAX_WARNINGS = 20

export const RuleWarning = Schema.Struct({
  pointer: Schema.String.annotateKey({
    description: "JSON Pointer to the rule in the list, such as `#/rules/0`, or to a member of it."
  }),
  detail: Schema.String.annotateKey({
    description: "What the rule allows or cannot allow, and what to write instead."
  })
}).annotate({
  identifier: "RuleWarning",
  description: "A rule of a valid list that allows more, or less, than it seems to."
})
export type RuleWarning = typeof RuleWarning.Type

export const RuleWarnings = Schema.Array(RuleWarning).annotateKey({
  description: `Rules that allow more or less than they seem to, at most ${MAX_WARNINGS} of each: those that allow any tool by action class or task alone, which the agent states itself, those that reject or ask by such a statement before a rule that allows the same tool, and those that allow any tool before a rule that rejects. Also sums of budgets whose pointer leads to a number in none of the recorded steps that the rule's patterns match.`
})

/** The rules that trust the agent's own statements, or that leave later rejections without effect. */
export const findRuleWarnings = (
  rules: ReadonlyArray<Pick<ApprovalRule, "tool" | "action_class" | "task_id" | "effect" | "when">>
): ReadonlyArray<RuleWarning> => {
  const lastReject = rules.findLastIndex(({ effect }) => effect === "reject")
  return rules
    .flatMap(({ action_class, effect, task_id, tool }, index): ReadonlyArray<RuleWarning> => {
      const pointer = `#/rules/${index}`
      const isClaimed = !isAny(action_class) || task_id !== null
      if (effect !== "allow") {
        const isEvaded = isClaimed && !isAny(tool) && rules.slice(index + 1).some(allowsAny(tool))
        return isEvaded ? [{ pointer, detail: evaded }] : []
      }
      if (!isAny(tool)) return []
      if (isClaimed) return [{ pointer, detail: claimed }]
      return index < lastReject ? [{ pointer, detail: tooEarly }] : []
    })
    .slice(0, MAX_WARNINGS)
}

/** Whether a rule allows some tool of a pattern, whatever its arguments are. */
const allowsAny =
  (tool: string) =>
  (rule: Pick<ApprovalRule, "tool" | "effect" | "when">): boolean =>
    rule.effect === "allow" && rule.when.length === 0 && overlap(tool, rule.tool)

/**
 * The first rule that matches every step of another rule, which is never reached below it; -1: none. A rule with conditions, budgets or a
 * task of its own matches only some.
 */
export const findCovering = (
  rules: ReadonlyArray<Pick<ApprovalRule, "tool" | "action_class" | "task_id" | "when" | "budgets">>,
  { action_class, task_id, tool }: Pick<ApprovalRule, "tool" | "action_class" | "task_id">
): number =>
  rules.findIndex(
    (rule) =>
      rule.when.length === 0 &&
      rule.budgets.length === 0 &&
      (rule.task_id === null || rule.task_id === task_id) &&
      covers(rule.tool, tool) &&
      covers(rule.action_class, action_class)
  )

/** Whether a pattern matches each name that another one matches. A wildcard of the other stands for any text, also for a star. */
const covers = (pattern: string, other: string): boolean =>
  pattern === other || compileTextPattern(pattern)(other.replaceAll("*", "\u{10ffff}"))

/** Whether some name matches both patterns. */
const overlap = (one: string, other: string): boolean => {
  if (!one.includes("*")) return compileTextPattern(other)(one)
  if (!other.includes("*")) return compileTextPattern(one)(other)
  const [head, tail] = endsOf(one)
  const [otherHead, otherTail] = endsOf(other)
  return (
    (head.startsWith(otherHead) || otherHead.startsWith(head)) &&
    (tail.endsWith(otherTail) || otherTail.endsWith(tail))
  )
}

const isAny = (pattern: string): boolean => /^\*+$/u.test(pattern)

const claimed =
  "Allows any tool by its action class or task, which the agent states itself. Name the tools that may be used without asking."
/** The parts of a pattern before its first and after its last `*`. */
const endsOf = (pattern: string) =>
  [pattern.slice(0, pattern.indexOf("*")), pattern.slice(pattern.lastIndexOf("*") + 1)] as const

const evaded =
  "Rejects or asks by action class or task, which the agent states itself, and a later rule allows the same tool: a step that states another one is allowed. Decide by conditions on the arguments, or for every class and task."
const tooEarly =
  "Allows any tool before a later rule that rejects, which then applies to less than it names. Put this rule after it, or name the tools that may be used without asking."
