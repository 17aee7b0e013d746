import type { Schema } from "effect"
import { documentedEnum } from "../documentedEnum.ts"
import { encodeWithoutArguments } from "./Approval.ts"
import { type ApprovalMessage, encodeMessage } from "./ApprovalMessage.ts"
import type { ApprovalEventType, ApprovalTransitionEvent } from "./ApprovalEvent.ts"
import type { GovernedStep, StepOutcome } from "./AgentSession.ts"
import type { ApprovalId, StepId } from "../Ids.ts"
import { formatTimestamp } from "../Time.ts"
import type { ExecutionRecord, ExecutionTransition } from "./Execution.ts"

export const SessionEventType = documentedEnum({
  "step:governed": "A governed step was answered.",
  "tool:claimed": "An agent claimed a step, to execute it.",
  "tool:unknown": "A claim ended without an outcome: it is unknown whether the step was executed.",
  "tool:retry_allowed": "A person allowed another attempt of a step whose outcome is unknown.",
  "tool:outcome": "The outcome of a step was recorded.",
  "approval:requested": "A step waits for a decision.",
  "approval:expiring": "The open review window is about to end.",
  "approval:escalated": "The admins' escalation window is open.",
  "approval:vote_recorded": "A person approved, and the quorum needs more approvals.",
  "approval:message": "A reviewer or the agent sent a message about a pending approval.",
  "approval:decided": "The approval closed: by a decision, a timeout, or because its session was closed.",
  "session:closed": "The session was closed. The last event."
})
export type SessionEventType = typeof SessionEventType.Type

/** An event to append to a session. The session's row assigns its number. */
export interface NewSessionEvent {
  readonly type: SessionEventType
  readonly step_id: StepId | null
  /** The members of the streamed event beside `id`, `type`, `session_id`, `step_id` and `occurred_at`. */
  readonly payload: Readonly<Record<string, Schema.Json>>
}

/** The session event of an approval's transition. An expired approval is `approval:decided` too: the step has its answer. */
const sessionEventTypeOf = (event: ApprovalEventType): SessionEventType => {
  switch (event) {
    case "approval.requested":
      return "approval:requested"
    case "approval.expiring":
      return "approval:expiring"
    case "approval.escalated":
      return "approval:escalated"
    case "approval.vote_recorded":
      return "approval:vote_recorded"
    case "approval.approved":
    case "approval.rejected":
    case "approval.expired":
      return "approval:decided"
  }
}

/** The event of an answered governed step. */
export const stepGovernedEvent = (
  step: GovernedStep,
  request: { readonly tool: string; readonly action_class: string }
): NewSessionEvent => ({
  type: "step:governed",
  step_id: step.step_id,
  payload: {
    tool: request.tool,
    action_class: request.action_class,
    decision: step.decision,
    reason: step.reason,
    rule_id: step.rule_id,
    approval_id: step.approval_id,
    decision_source: step.decision_source,
    grant_id: step.grant_id,
    ...(step.reviewer === undefined ? {} : { reviewer: step.reviewer }),
    arguments_digest: step.arguments_digest
  }
})

/** The event of a step's outcome. It leaves out the result, which the agent has. */
export const toolOutcomeEvent = (
  { error, late = false, status, step_id }: StepOutcome,
  tool: string,
  execution: ExecutionRecord | null
): NewSessionEvent => ({
  type: "tool:outcome",
  step_id,
  payload: {
    tool,
    status,
    error,
    ...(execution === null
      ? {}
      : {
          claim_id: execution.claim_id,
          late,
          resolved_by: late ? null : (execution.resolution?.resolved_by ?? null)
        })
  }
})

const executionEventTypes = {
  claimed: "tool:claimed",
  unknown: "tool:unknown",
  retry_allowed: "tool:retry_allowed"
} as const

/** The events of an execution's transitions. A renewal has none, and a completed execution has `toolOutcomeEvent`. */
export const executionEvents = (
  transitions: ReadonlyArray<ExecutionTransition>,
  step: { readonly step_id: StepId; readonly tool: string }
): ReadonlyArray<NewSessionEvent> =>
  transitions.flatMap(({ event, execution }) =>
    event === "renewed" || event === "completed"
      ? []
      : [
          {
            type: executionEventTypes[event],
            step_id: step.step_id,
            payload: {
              tool: step.tool,
              claim_id: execution.claim_id,
              attempt: execution.attempt,
              claimed_by: execution.claimed_by,
              expires_at: formatTimestamp(execution.expires_at)
            }
          }
        ]
  )

/** The last event of a session; its stream ends after it. */
export const sessionClosedEvent: NewSessionEvent = { type: "session:closed", step_id: null, payload: {} }

/** The event of a message about a pending approval. */
export const approvalMessageEvent = (
  { approval_id, step_id }: { readonly approval_id: ApprovalId; readonly step_id: StepId },
  message: ApprovalMessage
): NewSessionEvent => ({
  type: "approval:message",
  step_id,
  payload: { approval_id, message: encodeMessage(message) }
})

/** The event of an approval's transition, without the arguments, which can be secret and are stored with the step. */
export const approvalTransitionedEvent = ({ approval, event }: ApprovalTransitionEvent): NewSessionEvent => ({
  type: sessionEventTypeOf(event),
  step_id: approval.step_id,
  payload: { approval: encodeWithoutArguments(approval) }
})
