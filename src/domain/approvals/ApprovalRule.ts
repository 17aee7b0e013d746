import { Schema } from "effect"
import { documentedEnum } from "../documentedEnum.ts"
import type { ApprovalTerms } from "./ApprovalState.ts"
import { ApprovalOutcome } from "./Approval.ts"
import { RuleId, TaskId } from "../Ids.ts"
import { isVisibleLine } from "../VisibleText.ts"

export const RuleEffect = documentedEnum({
  allow: "The agent may execute the step.",
  reject:
    "The agent must not execute the step. A rule that rejects also overrides earlier approvals of the step.",
  require_approval: "The step waits for a person."
})
export type RuleEffect = typeof RuleEffect.Type

/** Shortest and longest window, in seconds. */
const WINDOW = { minimum: 1, maximum: 30 * 24 * 3600 }

const Window = Schema.Int.check(
  Schema.isBetween(WINDOW, { expected: "a whole number of seconds from 1 to 2592000 (30 days)" })
)

/** Matched exactly, except that each `*` matches any number of characters. */
const Pattern = Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(200), isVisibleLine)

export const ApprovalRule = Schema.Struct({
  id: RuleId.annotateKey({
    description: "The rule's ID. It stays the same when the list is replaced with it."
  }),
  tool: Pattern.annotateKey({
    description:
      "Pattern for the step's tool: 1 to 200 characters, in which each `*` matches any number of characters. Default `*`, any tool."
  }),
  action_class: Pattern.annotateKey({
    description:
      "Pattern for the step's action class: 1 to 200 characters, in which each `*` matches any number of characters. Default `*`, any class."
  }),
  task_id: Schema.NullOr(TaskId).annotateKey({
    description:
      "Matches only steps of this task. Null, the default, matches every step, also without a task."
  }),
  effect: RuleEffect.annotateKey({ description: "The rule's effect on a step that it matches." }),
  review_seconds: Window.annotateKey({
    description: "Length of the reviewers' window in seconds, 1 to 2,592,000 (30 days). Default 3,600."
  }),
  expiring_seconds: Schema.NullOr(
    Schema.Int.check(
      Schema.isBetween(
        { minimum: 0, maximum: WINDOW.maximum },
        { expected: "a whole number of seconds from 0 to 2592000 (30 days)" }
      )
    )
  ).annotateKey({
    description:
      "How many seconds before the end of a window `approval.expiring` is sent; less than `review_seconds`. Null, the default, means a quarter of the window; 0 means never."
  }),
  escalation_seconds: Schema.NullOr(Window).annotateKey({
    description:
      "Length of the admins' escalation window after the reviewers' window, in seconds, 1 to 2,592,000. Null, the default, means no escalation."
  }),
  timeout_action: ApprovalOutcome.annotateKey({
    description: "The outcome if the last window ends without a decision. Default `reject`."
  }),
  self_approval: Schema.Boolean.annotateKey({
    description: "Whether the key that submitted the step may decide it. Default false."
  }),
  reason: Schema.String.check(Schema.isMaxLength(1_000)).annotateKey({
    description: "Shown to the agent and to reviewers. At most 1,000 characters. Default: empty."
  })
}).annotate({
  identifier: "ApprovalRule",
  description: "One rule of the organization's ordered list. The first rule that matches a step decides."
})
export type ApprovalRule = typeof ApprovalRule.Type

/** Default reviewers' window. */
export const DEFAULT_REVIEW_SECONDS = 3600

/** The decision of the rules about one step. */
export interface Ruling {
  /** Null if no rule matched, so that the built-in rule applies. */
  readonly rule_id: RuleId | null
  readonly effect: RuleEffect
  readonly reason: string
  readonly terms: ApprovalTerms
}

/** The facts about a step that rules match. */
export interface RuleInput {
  readonly tool: string
  readonly action_class: string
  readonly task_id: TaskId | null
}

/** Evaluates the rules in order: the first match decides; without a match a person decides, with the default terms. */
export const evaluateRules = (rules: ReadonlyArray<ApprovalRule>, step: RuleInput): Ruling => {
  const rule = rules.find((candidate) => matches(candidate, step))
  if (rule === undefined) return builtInRuling
  return {
    rule_id: rule.id,
    effect: rule.effect,
    reason: rule.reason === "" ? defaultReasons[rule.effect] : rule.reason,
    terms: {
      review_seconds: rule.review_seconds,
      expiring_seconds: rule.expiring_seconds,
      escalation_seconds: rule.escalation_seconds,
      timeout_action: rule.timeout_action,
      self_approval: rule.self_approval
    }
  }
}

/** Shown for a rule without a reason of its own. */
const defaultReasons: Record<RuleEffect, string> = {
  allow: "A rule allows this step",
  reject: "A rule rejects this step",
  require_approval: "A rule requires approval by a person"
}

const builtInRuling: Ruling = {
  rule_id: null,
  effect: "require_approval",
  reason: "No rule matches; a person must approve",
  terms: {
    review_seconds: DEFAULT_REVIEW_SECONDS,
    expiring_seconds: null,
    escalation_seconds: null,
    timeout_action: "reject",
    self_approval: false
  }
}

const matches = (rule: ApprovalRule, step: RuleInput): boolean =>
  matchesPattern(rule.tool, step.tool) &&
  matchesPattern(rule.action_class, step.action_class) &&
  (rule.task_id === null || rule.task_id === step.task_id)

/**
 * Whether a text matches a pattern in which `*` matches any number of characters. Searches each literal part once, from left to right,
 * so the cost is at most proportional to pattern length times text length.
 */
export const matchesPattern = (pattern: string, text: string): boolean => {
  const [head = "", ...rest] = pattern.split("*")
  const tail = rest.pop()
  if (tail === undefined) return pattern === text
  if (text.length < head.length + tail.length || !text.startsWith(head) || !text.endsWith(tail)) return false
  const end = text.length - tail.length
  let from = head.length
  for (const part of rest) {
    const found = text.indexOf(part, from)
    if (found === -1 || found + part.length > end) return false
    from = found + part.length
  }
  return true
}
