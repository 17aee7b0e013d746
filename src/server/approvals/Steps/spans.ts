import { Effect } from "effect"
import type { StepRequest } from "../../../api/AgentSessions.ts"
import type { StepDecisionSource, StepOutcome } from "../../../domain/approvals/AgentSession.ts"
import type { OrgId, SessionId, TraceId } from "../../../domain/Ids.ts"
import type { ExecutionRecord } from "../../../domain/approvals/Execution.ts"
import { outcomeSpan, stepSpan } from "../../../domain/telemetry/SpanConventions.ts"
import type { Timestamp } from "../../../domain/Time.ts"
import type { Spans } from "../../telemetry/Spans.ts"
import type { SavedStep, StepRow } from "./rows.ts"

/** Records the span of a step's first request, from its decision to the commit. */
export const recordStepSpan = (
  spans: Spans["Service"],
  trace_id: TraceId | undefined,
  row: StepRow,
  step: StepRequest,
  decision_source: StepDecisionSource | null,
  decided_at: Timestamp
): Effect.Effect<void> => {
  if (trace_id === undefined) return Effect.void
  const attributes = {
    trace_id,
    session_id: row.session_id,
    step_id: row.step_id,
    task_id: row.task_id,
    tool: row.tool,
    action_class: row.action_class,
    arguments_digest: row.arguments_digest,
    decision: row.decision,
    rule_id: row.rule_id,
    approval_id: row.approval_id ?? row.proposal_approval_id,
    decision_source,
    grant_id: row.grant_id,
    reviewer: row.reviewer ?? undefined,
    start: decided_at.epochMilliseconds
  }
  return spans.record(row.org_id, {
    trace_id,
    count: 1,
    ...(step.arguments === undefined ? {} : { content: { arguments: step.arguments } }),
    make: (end, content) => [stepSpan({ ...attributes, end, arguments: content["arguments"] })]
  })
}

/** A step that is completed, and its approval if it waited for one. */
interface CompletedStep {
  readonly org_id: OrgId
  readonly session_id: SessionId
  readonly step: SavedStep
  readonly approval: { readonly decided_at: Timestamp | null; readonly expires_at: Timestamp } | null
  /** Null: it was not claimed. */
  readonly execution: ExecutionRecord | null
}

/**
 * Records the span of an outcome. It starts when the step was claimed, or else when it was allowed: by a rule immediately, or when the approval
 * closed.
 */
export const recordOutcomeSpan = (
  spans: Spans["Service"],
  trace_id: TraceId | undefined,
  { approval, execution, org_id, session_id, step }: CompletedStep,
  { occurred_at, result, status }: StepOutcome
): Effect.Effect<void> => {
  if (trace_id === undefined) return Effect.void
  const allowed_at = approval === null ? step.requested_at : (approval.decided_at ?? approval.expires_at)
  return spans.record(org_id, {
    trace_id,
    count: 1,
    ...(result === undefined ? {} : { content: { result } }),
    make: (_at, content) => [
      outcomeSpan({
        ...step,
        trace_id,
        session_id,
        status,
        start: (execution?.claimed_at ?? allowed_at).epochMilliseconds,
        end: occurred_at.epochMilliseconds,
        result: content["result"],
        attempt: execution?.attempt
      })
    ]
  })
}
