import { Schema } from "effect"
import { ApprovalId, RuleId, SessionId, StepId, TaskId, TraceId } from "../Ids.ts"
import { Actor } from "../identity/Principal.ts"
import { Timestamp } from "../Time.ts"

/** A run of an agent: what its governed steps, approvals and events belong to. */
export const AgentSession = Schema.Struct({
  session_id: SessionId,
  task_id: Schema.NullOr(TaskId),
  /** The trace that the session's spans are in. */
  trace_id: TraceId,
  metadata: Schema.Record(Schema.String, Schema.Json),
  status: Schema.Literals(["open", "closed"]),
  created_at: Timestamp,
  created_by: Actor,
  closed_at: Schema.NullOr(Timestamp)
}).annotate({ identifier: "AgentSession" })
export type AgentSession = typeof AgentSession.Type

/** What the agent may do with its step, now. */
export const StepDecision = Schema.Literals(["allow", "reject", "pending"])
export type StepDecision = typeof StepDecision.Type

/** The answer to a governed-step check. */
export const GovernedStep = Schema.Struct({
  step_id: StepId,
  decision: StepDecision,
  approval_id: Schema.NullOr(ApprovalId),
  /** Why, in a sentence for people. */
  reason: Schema.String,
  /** The rule that decided; null: no rule matched and the built-in one applies. */
  rule_id: Schema.NullOr(RuleId),
  /** End of the window that is open; null where nothing is waited for. */
  expires_at: Schema.NullOr(Timestamp),
  /** SHA-256 over the RFC 8785 form of what executes: organization, session, step, tool, action class, arguments. */
  arguments_digest: Schema.String
}).annotate({ identifier: "GovernedStep" })
export type GovernedStep = typeof GovernedStep.Type

/** How a tool ended. */
export const OutcomeStatus = Schema.Literals(["succeeded", "failed"])
export type OutcomeStatus = typeof OutcomeStatus.Type

/** What became of an allowed step. It is said once. */
export const StepOutcome = Schema.Struct({
  step_id: StepId,
  status: OutcomeStatus,
  /** As the agent gave it; absent when it gave none. */
  result: Schema.optionalKey(Schema.Json),
  error: Schema.NullOr(Schema.String),
  occurred_at: Timestamp
}).annotate({ identifier: "StepOutcome" })
export type StepOutcome = typeof StepOutcome.Type
