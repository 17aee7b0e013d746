import { Duration } from "effect"
import type { NewApiKey } from "../api/ApiKeys.ts"
import { compileTextPattern } from "../domain/approvals/CompiledRules/compileTextPattern.ts"
import type { Decision } from "../domain/approvals/Approval.ts"
import type { ProposedArguments } from "../domain/approvals/CounterProposal.ts"

/** Which approvals a scripted person decides: approvals that match all patterns, in which each `*` matches any characters. */
export interface ApprovalPattern {
  /** Default: any tool. */
  readonly tool?: string
  /** Default: any class. */
  readonly action_class?: string
}

/** How a scripted person decides. */
export interface PersonOptions {
  /** How long after the request, or for an admin after the escalation, the person decides. Default: at once. */
  readonly after?: Duration.Input
  /** Decides escalated approvals, as an admin. Default: decides before that, as a reviewer. */
  readonly admin?: boolean
  /** A comment for the record. */
  readonly comment?: string
  /** The person's API key, such as `{ name: "Ada" }`. Default: a key with the preset `reviewer` or `admin`. */
  readonly key?: Partial<NewApiKey>
  /** Default `test`. */
  readonly organization?: string
}

/** How a scripted person rejects. */
export interface RejectOptions extends PersonOptions {
  /** Other arguments to propose. A step that has exactly these arguments is rejected without a proposal. */
  readonly proposes?: ProposedArguments
}

/** A person who decides every approval that matches. */
export interface ScriptedPerson {
  readonly decision: Decision
  readonly matches: (approval: { readonly tool: string; readonly action_class: string }) => boolean
  readonly afterMillis: number
  readonly stage: "reviewer" | "admin"
  readonly comment: string | null
  readonly proposes: ProposedArguments | undefined
  readonly key: Partial<NewApiKey>
  readonly organization: string | undefined
}

/** Whether a pattern matches. */
export const matchesApproval = ({
  action_class = "*",
  tool = "*"
}: ApprovalPattern): ScriptedPerson["matches"] => {
  const matchesTool = compileTextPattern(tool)
  const matchesClass = compileTextPattern(action_class)
  return (approval) => matchesTool(approval.tool) && matchesClass(approval.action_class)
}

const person = (decision: Decision, pattern: ApprovalPattern, options: RejectOptions): ScriptedPerson => {
  const { admin = false, after = 0, comment = null, key = {}, organization, proposes } = options
  return {
    decision,
    matches: matchesApproval(pattern),
    afterMillis: Duration.toMillis(Duration.fromInputUnsafe(after)),
    stage: admin ? "admin" : "reviewer",
    comment,
    proposes,
    key: { preset: admin ? "admin" : "reviewer", ...key },
    organization
  }
}

/** A person who approves: `approves({ tool: "payments.*" }, { after: "2 hours" })`. */
export const approves = (pattern: ApprovalPattern = {}, options: PersonOptions = {}): ScriptedPerson =>
  person("approve", pattern, options)

/** A person who rejects: `rejects({ action_class: "delete" })`, or `rejects({ tool: "refund" }, { proposes: { amount: 20 } })`. */
export const rejects = (pattern: ApprovalPattern = {}, options: RejectOptions = {}): ScriptedPerson =>
  person("reject", pattern, options)
