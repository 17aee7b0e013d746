import { Schema } from "effect"
import type { ApprovalRule } from "./ApprovalRule.ts"

/** Most warnings about one list. */
const MAX_WARNINGS = 20

export const RuleWarning = Schema.Struct({
  pointer: Schema.String.annotateKey({
    description: "JSON Pointer to the rule in the list, such as `#/rules/0`."
  }),
  detail: Schema.String.annotateKey({ description: "What the rule allows, and what to write instead." })
}).annotate({
  identifier: "RuleWarning",
  description: "A rule of a valid list that allows more than it seems to."
})
export type RuleWarning = typeof RuleWarning.Type

export const RuleWarnings = Schema.Array(RuleWarning).annotateKey({
  description: `Rules that allow more than they seem to, at most ${MAX_WARNINGS}: those that allow any tool by action class or task alone, which the agent states itself, and those that allow any tool before a rule that rejects.`
})

/** The rules that trust the agent's own statements, or that leave later rejections without effect. */
export const findRuleWarnings = (
  rules: ReadonlyArray<Pick<ApprovalRule, "tool" | "action_class" | "task_id" | "effect">>
): ReadonlyArray<RuleWarning> => {
  const lastReject = rules.findLastIndex(({ effect }) => effect === "reject")
  return rules
    .flatMap(({ action_class, effect, task_id, tool }, index): ReadonlyArray<RuleWarning> => {
      if (effect !== "allow" || !isAny(tool)) return []
      const pointer = `#/rules/${index}`
      if (!isAny(action_class) || task_id !== null) return [{ pointer, detail: claimed }]
      return index < lastReject ? [{ pointer, detail: tooEarly }] : []
    })
    .slice(0, MAX_WARNINGS)
}

const isAny = (pattern: string): boolean => /^\*+$/u.test(pattern)

const claimed =
  "Allows any tool by its action class or task, which the agent states itself. Name the tools that may be used without asking."
const tooEarly =
  "Allows any tool before a later rule that rejects, which then applies to less than it names. Put this rule after it, or name the tools that may be used without asking."
