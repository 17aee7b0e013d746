import { Schema } from "effect"
import type { ApprovalTerms } from "./ApprovalState.ts"
import { ApprovalOutcome } from "./Approval.ts"
import { RuleId, TaskId } from "../Ids.ts"
import { isVisibleLine } from "../VisibleText.ts"

/** What a rule does with a step that it matches. */
export const RuleEffect = Schema.Literals(["allow", "reject", "require_approval"])
export type RuleEffect = typeof RuleEffect.Type

/** The shortest and the longest window, in seconds: 1 s to 30 days. */
const WINDOW = { minimum: 1, maximum: 30 * 24 * 3600 }

const Window = Schema.Int.check(
  Schema.isBetween(WINDOW, { expected: "a whole number of seconds from 1 to 2592000 (30 days)" })
)

/** A text to match exactly, in which each `*` stands for any run of characters. */
const Pattern = Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(200), isVisibleLine)

/** One rule of an organization's ordered list: the first that matches a step decides. */
export const ApprovalRule = Schema.Struct({
  id: RuleId,
  tool: Pattern,
  action_class: Pattern,
  /** The task a step must name; null: any, or none. */
  task_id: Schema.NullOr(TaskId),
  effect: RuleEffect,
  /** The reviewers' window. */
  review_seconds: Window,
  /**
   * How long before a window's end `approval.expiring` is sent, less than the reviewers' window; null: a quarter of each window; 0: it is
   * not sent.
   */
  expiring_seconds: Schema.NullOr(
    Schema.Int.check(
      Schema.isBetween(
        { minimum: 0, maximum: WINDOW.maximum },
        { expected: "a whole number of seconds from 0 to 2592000 (30 days)" }
      )
    )
  ),
  /** The admins' window after the reviewers'; null: none. */
  escalation_seconds: Schema.NullOr(Window),
  timeout_action: ApprovalOutcome,
  /** Whether the key that asked for the step may decide it. */
  self_approval: Schema.Boolean,
  /** Said to the agent and to reviewers. */
  reason: Schema.String.check(Schema.isMaxLength(1_000))
}).annotate({ identifier: "ApprovalRule" })
export type ApprovalRule = typeof ApprovalRule.Type

/** The reviewers' window where nothing else is said. */
export const DEFAULT_REVIEW_SECONDS = 3600

/** What decides a step. */
export interface Ruling {
  /** Null: no rule matched, and the built-in one applies. */
  readonly rule_id: RuleId | null
  readonly effect: RuleEffect
  readonly reason: string
  readonly terms: ApprovalTerms
}

/** What a rule looks at. */
export interface RuleInput {
  readonly tool: string
  readonly action_class: string
  readonly task_id: TaskId | null
}

/** The first rule that matches the step decides; where none does, a person is asked, with the defaults. */
export const evaluateRules = (rules: ReadonlyArray<ApprovalRule>, step: RuleInput): Ruling => {
  const rule = rules.find((candidate) => matches(candidate, step))
  if (rule === undefined) return builtIn
  return {
    rule_id: rule.id,
    effect: rule.effect,
    reason: rule.reason === "" ? sayings[rule.effect] : rule.reason,
    terms: {
      review_seconds: rule.review_seconds,
      expiring_seconds: rule.expiring_seconds,
      escalation_seconds: rule.escalation_seconds,
      timeout_action: rule.timeout_action,
      self_approval: rule.self_approval
    }
  }
}

const sayings: Record<RuleEffect, string> = {
  allow: "A rule allows this step",
  reject: "A rule rejects this step",
  require_approval: "A rule asks for a person's approval"
}

const builtIn: Ruling = {
  rule_id: null,
  effect: "require_approval",
  reason: "No rule matches, so a person is asked",
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
 * Whether a text fits a pattern in which `*` stands for any run of characters. Each fixed part is looked for once, from left to
 * right, so the cost grows with pattern times text at most, whatever they hold.
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
