import { Schema } from "effect"
import { ApprovalId, SessionId, StepId, TaskId } from "../Ids.ts"
import { Actor } from "../identity/Principal.ts"
import { formatTimestamp, Timestamp } from "../Time.ts"

/** Escalation is no status: an escalated approval is still pending, in stage `admin`. */
export const ApprovalStatus = Schema.Literals(["pending", "approved", "rejected", "expired"])
export type ApprovalStatus = typeof ApprovalStatus.Type

/** Whose review window is open. */
export const ApprovalStage = Schema.Literals(["reviewer", "admin"])
export type ApprovalStage = typeof ApprovalStage.Type

/** What a closed approval means for its step. */
export const ApprovalOutcome = Schema.Literals(["allow", "reject"])
export type ApprovalOutcome = typeof ApprovalOutcome.Type

/** What closed the approval. Only `human` has somebody to name. */
export const DecisionSource = Schema.Literals(["human", "timeout", "session_closed"])
export type DecisionSource = typeof DecisionSource.Type

/** A person's verdict on a step. */
export const Decision = Schema.Literals(["approve", "reject"])
export type Decision = typeof Decision.Type

/** An action of an agent that waits, or waited, for a person. */
export const Approval = Schema.Struct({
  approval_id: ApprovalId,
  session_id: SessionId,
  step_id: StepId,
  task_id: Schema.NullOr(TaskId),
  tool: Schema.String,
  action_class: Schema.String,
  /** As the agent gave them; absent when it gave none. */
  arguments: Schema.optionalKey(Schema.Json),
  arguments_digest: Schema.String,
  status: ApprovalStatus,
  stage: ApprovalStage,
  requested_at: Timestamp,
  /** End of the reviewers' window. */
  review_deadline_at: Timestamp,
  /** End of the admins' window; null where the rule grants none. */
  escalation_deadline_at: Schema.NullOr(Timestamp),
  /** End of the window that is open: the one deadline a client needs. */
  expires_at: Timestamp,
  escalated_at: Schema.NullOr(Timestamp),
  /** What a silent end of the last window does. */
  timeout_action: ApprovalOutcome,
  outcome: Schema.NullOr(ApprovalOutcome),
  decision_source: Schema.NullOr(DecisionSource),
  decided_at: Schema.NullOr(Timestamp),
  decided_by: Schema.NullOr(Actor),
  comment: Schema.NullOr(Schema.String)
}).annotate({ identifier: "Approval" })
export type Approval = typeof Approval.Type

/** The wire form of an approval without its arguments, as events tell it: what `Approval` encodes to, at a tenth of the cost. */
export const encodeWithoutArguments = ({
  arguments: _,
  ...approval
}: Approval): Omit<typeof Approval.Encoded, "arguments"> => ({
  ...approval,
  requested_at: formatTimestamp(approval.requested_at),
  review_deadline_at: formatTimestamp(approval.review_deadline_at),
  escalation_deadline_at: formatMaybe(approval.escalation_deadline_at),
  expires_at: formatTimestamp(approval.expires_at),
  escalated_at: formatMaybe(approval.escalated_at),
  decided_at: formatMaybe(approval.decided_at)
})

const formatMaybe = (at: Timestamp | null): string | null => (at === null ? null : formatTimestamp(at))
