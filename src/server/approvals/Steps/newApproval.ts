import type { StepRequest } from "../../../api/AgentSessions.ts"
import type { Ruling } from "../../../domain/approvals/ApprovalRule.ts"
import { requestApproval } from "../../../domain/approvals/ApprovalState.ts"
import { renderSummary } from "../../../domain/approvals/SummaryTemplate.ts"
import { describeArguments } from "../../../domain/approvals/describeArguments.ts"
import type { ApprovalId, SessionId } from "../../../domain/Ids.ts"
import type { Principal } from "../../../domain/identity/Principal.ts"
import type { Timestamp } from "../../../domain/Time.ts"
import { type ApprovalRow, storedQuorum, withoutProposal } from "../approvalRows.ts"

/** The arguments as JSON text, also for the value `null`; null if there are none. */
export const argumentsText = (step: StepRequest): string | null =>
  step.arguments === undefined ? null : JSON.stringify(step.arguments)

/** Builds the pending approval of a step whose ruling requires approval. */
export const newApproval = (
  { actor, org_id }: Principal,
  session_id: SessionId,
  approval_id: ApprovalId,
  step: StepRequest,
  argumentsJson: string | null,
  arguments_digest: string,
  ruling: Ruling,
  now: Timestamp
): ApprovalRow => {
  const state = requestApproval(ruling.terms, actor.id, now)
  return {
    org_id,
    approval_id,
    session_id,
    step_id: step.step_id,
    task_id: step.task_id ?? null,
    tool: step.tool,
    action_class: step.action_class,
    arguments: argumentsJson,
    arguments_digest,
    rule_summary: ruling.summary === undefined ? null : renderSummary(ruling.summary, step.arguments),
    agent_summary: step.summary === undefined || step.summary?.trim() === "" ? null : step.summary,
    arguments_line: describeArguments(step.arguments),
    requested_at: now,
    requested_by_id: actor.id,
    status: state.status,
    stage: state.stage,
    review_deadline_at: state.review_deadline_at,
    escalation_deadline_at: state.escalation_deadline_at,
    expires_at: state.expires_at,
    expiring_seconds: state.expiring_seconds,
    expiring_notified: state.expiring_notified,
    escalated_at: state.escalated_at,
    timeout_action: state.timeout_action,
    self_approval: state.self_approval,
    require_comment: state.require_comment,
    quorum: storedQuorum(state.quorum),
    votes: null,
    outcome: state.outcome,
    decision_source: state.decision_source,
    decided_at: state.decided_at,
    decided_by_id: null,
    decided_by_name: null,
    comment: null,
    changes_requested: false,
    ...withoutProposal
  }
}
