import type { GovernedStep, StepDecision, StepDecisionSource, StepReviewer } from "./AgentSession.ts"
import type { Approval, ApprovalOutcome } from "./Approval.ts"
import type { Ruling } from "./ApprovalRule.ts"
import type { ApprovalId, GrantId, RuleId, StepId } from "../Ids.ts"

/** A step as it was first submitted, with its first decision. */
export interface StoredStep {
  readonly step_id: StepId
  readonly tool: string
  readonly action_class: string
  readonly arguments_digest: string
  readonly rule_id: RuleId | null
  readonly decision: StepDecision
  readonly reason: string
  readonly approval_id: ApprovalId | null
  /** The approval whose counter-proposal allowed the step. */
  readonly proposal_approval_id: ApprovalId | null
  readonly grant_id: GrantId | null
  /** The reviewer model that decided; null: none. */
  readonly reviewer: StepReviewer | null
}

/** The part of an approval that decides its step. */
export type StepApproval = Pick<
  Approval,
  "outcome" | "expires_at" | "decision_source" | "decided_by" | "comment" | "changes_requested" | "proposal"
>

/** The members that a step must repeat unchanged. */
type Mismatch = "tool" | "action_class" | "arguments"

/**
 * The members in which a repeated step differs from the saved one. `digest` digests the repeated arguments together with a given tool and
 * action class; with the saved tool and class, only different arguments can change it.
 */
export const stepMismatches = (
  saved: StoredStep,
  repeated: { readonly tool: string; readonly action_class: string },
  digest: (under: { readonly tool: string; readonly action_class: string }) => string
): ReadonlyArray<Mismatch> => [
  ...(saved.tool === repeated.tool ? [] : ["tool" as const]),
  ...(saved.action_class === repeated.action_class ? [] : ["action_class" as const]),
  ...(saved.arguments_digest === digest(saved) ? [] : ["arguments" as const])
]

/**
 * The current decision of a step: `reject` if the rules reject it now; otherwise the approval's outcome; otherwise the first decision. A
 * step that a counter-proposal, a standing grant or a reviewer model decided has no approval of its own, and keeps its decision after the
 * grant has ended, or the reviewer has lost the right to decide.
 */
export const currentDecision = (
  saved: StoredStep,
  approval: StepApproval | null,
  ruling: Ruling
): GovernedStep => {
  const answer: GovernedStep = {
    step_id: saved.step_id,
    approval_id: saved.approval_id ?? saved.proposal_approval_id,
    decision_source: firstSource(saved),
    arguments_digest: saved.arguments_digest,
    rule_id: saved.rule_id,
    reason: saved.reason,
    decided_by: null,
    comment: null,
    changes_requested: false,
    decision: saved.decision,
    grant_id: saved.grant_id,
    expires_at: null,
    proposal: approval?.proposal ?? null,
    ...(saved.reviewer === null ? {} : { reviewer: saved.reviewer })
  }
  if (ruling.effect === "reject") {
    const { reason, rule_id } = ruling
    const { reviewer: _, ...ruled } = answer
    return { ...ruled, decision: "reject", decision_source: "rule", grant_id: null, reason, rule_id }
  }
  if (approval === null) return answer
  const { outcome } = approval
  return outcome === null
    ? { ...answer, decision_source: null, expires_at: approval.expires_at }
    : {
        ...answer,
        decision: outcome,
        decision_source: approval.decision_source,
        reason: closedReason(approval, outcome),
        decided_by: approval.decided_by,
        comment: approval.comment,
        changes_requested: approval.changes_requested
      }
}

/** What decided a step; null while its approval is pending. */
export const sourceOf = (
  saved: StoredStep,
  approval: Pick<StepApproval, "decision_source"> | null
): StepDecisionSource | null => (approval === null ? firstSource(saved) : approval.decision_source)

/** What decided a step without an approval of its own. */
const firstSource = ({ grant_id, proposal_approval_id, reviewer }: StoredStep): StepDecisionSource => {
  if (reviewer !== null) return "model"
  if (proposal_approval_id !== null) return "counter_proposal"
  return grant_id === null ? "rule" : "grant"
}

/** Why the approval closed. Names a person only if a person decided. */
const closedReason = (approval: StepApproval, outcome: ApprovalOutcome): string => {
  switch (approval.decision_source) {
    case "human":
      if (outcome === "allow") return "Approved by a person"
      return approval.changes_requested ? "A person requests changes" : "Rejected by a person"
    case "session_closed":
      return "The session was closed before anyone decided"
    default:
      return `Nobody decided in time; the rule's timeout action is ${outcome}`
  }
}
