import type { ApprovalRules } from "../../api/ApprovalRules.ts"
import type { RuleTestResult, RuleTestStep } from "../../domain/approvals/RuleTest.ts"
import { formatTimestamp } from "../../domain/Time.ts"

/** A number for people. */
export const number = (count: number): string => count.toLocaleString("en")

const steps = (count: number): string => `${number(count)} ${count === 1 ? "step" : "steps"}`

/** Text of people and agents on one line, without control characters, which could write anything to a terminal. */
export const printable = (text: string): string =>
  text.replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}\p{Default_Ignorable_Code_Point}]+/gu, " ").trim()

const findings = {
  rejected_would_run: { decision: "rejected", effect: "would run" },
  approved_would_be_rejected: { decision: "approved", effect: "would be rejected" }
} as const

/** Describes a step about which a person decided otherwise, with a link to its approval. */
export const describeStep = (step: RuleTestStep, url: string): string => {
  const { decision, effect } = findings[step.finding]
  const { comment } = step
  return [
    `${formatTimestamp(step.requested_at)} ${printable(step.tool)} (${printable(step.action_class)}) ${effect} by rule ` +
      `${step.rule_index + 1}: ${printable(step.reason)}`,
    `    ${decision} by ${printable(step.decided_by?.name ?? "a person")}${comment === null ? "" : `: ${printable(comment)}`}`,
    `    ${url.replace(/\/+$/, "")}/console/approvals/${step.approval_id}`
  ].join("\n")
}

const describeCounts = ({ allow, reject, require_approval }: RuleTestResult["recorded"]): string =>
  `${number(allow)} allowed, ${number(reject)} rejected, ${number(require_approval)} asked`

/** Describes the totals of a test. */
export const describeResult = (result: RuleTestResult): string =>
  [
    `${steps(result.steps)} from ${formatTimestamp(result.since)} to ${formatTimestamp(result.until)}`,
    `  recorded:     ${describeCounts(result.recorded)}`,
    `  by the file:  ${describeCounts(result.tested)}`,
    `${number(result.fewer_questions)} fewer questions, ${number(result.more_questions)} more`,
    `${number(result.same_as_person)} answered like the person who was asked`,
    `${steps(result.rejected_would_run)} that a person rejected would run`,
    `${steps(result.approved_would_be_rejected)} that a person approved would be rejected`,
    ...(result.unlisted === 0 ? [] : [`${steps(result.unlisted)} of these are not listed`])
  ].join("\n")

/** The revision of a list, for `--revision`. */
export const describeRevision = ({ revision, rules }: Pick<ApprovalRules, "rules" | "revision">): string =>
  `revision ${revision}: ${number(rules.length)} ${rules.length === 1 ? "rule" : "rules"}`
