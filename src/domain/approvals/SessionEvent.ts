import { Schema } from "effect"
import { encodeWithoutArguments } from "./Approval.ts"
import type { ApprovalEventType, ApprovalTransitionEvent } from "./ApprovalEvent.ts"
import type { GovernedStep, StepOutcome } from "./AgentSession.ts"
import type { StepId } from "../Ids.ts"

/** What a session's stream tells. */
export const SessionEventType = Schema.Literals([
  "step:governed",
  "tool:outcome",
  "approval:requested",
  "approval:expiring",
  "approval:escalated",
  "approval:decided",
  "session:closed"
])
export type SessionEventType = typeof SessionEventType.Type

/** An event that is about to be recorded: its number comes from the session's row. */
export interface NewSessionEvent {
  readonly type: SessionEventType
  readonly step_id: StepId | null
  /** What the event is about, as it stands in the stream beside `id, type, session_id, step_id, occurred_at`. */
  readonly payload: Readonly<Record<string, Schema.Json>>
}

/** The event under which a session's stream tells a move of an approval. It is also `approval:decided` when nobody decided. */
const sessionEventTypeOf = (event: ApprovalEventType): SessionEventType => {
  switch (event) {
    case "approval.requested":
      return "approval:requested"
    case "approval.expiring":
      return "approval:expiring"
    case "approval.escalated":
      return "approval:escalated"
    case "approval.approved":
    case "approval.rejected":
    case "approval.expired":
      return "approval:decided"
  }
}

/** An answered governed-step check, as the session records it. */
export const stepGovernedEvent = (
  step: GovernedStep,
  asked: { readonly tool: string; readonly action_class: string }
): NewSessionEvent => ({
  type: "step:governed",
  step_id: step.step_id,
  payload: {
    tool: asked.tool,
    action_class: asked.action_class,
    decision: step.decision,
    reason: step.reason,
    rule_id: step.rule_id,
    approval_id: step.approval_id,
    arguments_digest: step.arguments_digest
  }
})

/** What became of a step, as the session records it: without the result, which the agent has. */
export const toolOutcomeEvent = (outcome: StepOutcome, tool: string): NewSessionEvent => ({
  type: "tool:outcome",
  step_id: outcome.step_id,
  payload: { tool, status: outcome.status, error: outcome.error }
})

/** The end of a session: its stream ends after this. */
export const sessionClosedEvent: NewSessionEvent = { type: "session:closed", step_id: null, payload: {} }

/** A move of an approval, as the session records it: without the arguments, which the step holds. */
export const approvalTransitionedEvent = ({ approval, event }: ApprovalTransitionEvent): NewSessionEvent => ({
  type: sessionEventTypeOf(event),
  step_id: approval.step_id,
  payload: { approval: encodeWithoutArguments(approval) }
})
