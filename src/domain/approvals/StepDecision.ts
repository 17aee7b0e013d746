import type { GovernedStep, StepDecision } from "./AgentSession.ts"
import type { Approval, ApprovalOutcome } from "./Approval.ts"
import type { Ruling } from "./ApprovalRule.ts"
import type { ApprovalId, RuleId, StepId } from "../Ids.ts"

/** A step as it was first asked for, and what was decided then. */
interface SavedStep {
  readonly step_id: StepId
  readonly tool: string
  readonly action_class: string
  readonly arguments_digest: string
  readonly rule_id: RuleId | null
  readonly decision: StepDecision
  readonly reason: string
  readonly approval_id: ApprovalId | null
}

/** What can differ between a saved step and the one that resumes it. */
type Mismatch = "tool" | "action_class" | "arguments"

/**
 * What of a resumed step is not what was saved. `digest` is that of the resumed arguments under a given tool and class: under the
 * saved ones only the arguments can make it differ.
 */
export const stepMismatches = (
  saved: SavedStep,
  resumed: { readonly tool: string; readonly action_class: string },
  digest: (under: { readonly tool: string; readonly action_class: string }) => string
): ReadonlyArray<Mismatch> => [
  ...(saved.tool === resumed.tool ? [] : ["tool" as const]),
  ...(saved.action_class === resumed.action_class ? [] : ["action_class" as const]),
  ...(saved.arguments_digest === digest(saved) ? [] : ["arguments" as const])
]

/** The decision of a step as it stands: a rule that rejects now wins; else the approval's outcome; else what was decided at first. */
export const currentDecision = (
  saved: SavedStep,
  approval: Approval | null,
  ruling: Ruling
): GovernedStep => {
  const answer = {
    step_id: saved.step_id,
    approval_id: saved.approval_id,
    arguments_digest: saved.arguments_digest,
    rule_id: saved.rule_id,
    reason: saved.reason,
    decision: saved.decision,
    expires_at: null
  }
  if (ruling.effect === "reject") {
    return { ...answer, decision: "reject", reason: ruling.reason, rule_id: ruling.rule_id }
  }
  if (approval === null) return answer
  return approval.outcome === null
    ? { ...answer, expires_at: approval.expires_at }
    : { ...answer, decision: approval.outcome, reason: closedReason(approval, approval.outcome) }
}

/** Never blames a person for silence. */
const closedReason = (approval: Approval, outcome: ApprovalOutcome): string => {
  switch (approval.decision_source) {
    case "human":
      return outcome === "allow" ? "A person approved" : "A person rejected"
    case "session_closed":
      return "The session was closed before a person decided"
    default:
      return `Nobody decided in time, and the rule's timeout says ${outcome}`
  }
}
