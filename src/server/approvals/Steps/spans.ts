import { Effect } from "effect"
import type { StepRequest } from "../../../api/AgentSessions.ts"
import type { GovernedStep, StepOutcome } from "../../../domain/approvals/AgentSession.ts"
import type { Approval } from "../../../domain/approvals/Approval.ts"
import type { OrgId, SessionId, TraceId } from "../../../domain/Ids.ts"
import { outcomeSpan, stepSpan } from "../../../domain/telemetry/SpanConventions.ts"
import type { Timestamp } from "../../../domain/Time.ts"
import type { Spans } from "../../telemetry/Spans.ts"
import type { SavedStep } from "./rows.ts"

/** Records the span of a step's first request, from its decision to the commit. */
export const recordStepSpan = (
  spans: Spans["Service"],
  traces: ReadonlyMap<SessionId, TraceId>,
  org_id: OrgId,
  session_id: SessionId,
  step: StepRequest,
  answer: GovernedStep,
  decided_at: Timestamp
): Effect.Effect<void> => {
  const trace_id = traces.get(session_id)
  if (trace_id === undefined) return Effect.void
  const attributes = {
    trace_id,
    session_id,
    step_id: step.step_id,
    task_id: step.task_id ?? null,
    tool: step.tool,
    action_class: step.action_class,
    arguments_digest: answer.arguments_digest,
    decision: answer.decision,
    rule_id: answer.rule_id,
    approval_id: answer.approval_id,
    start: decided_at.epochMilliseconds
  }
  return spans.record(org_id, {
    trace_id,
    count: 1,
    ...(step.arguments === undefined ? {} : { content: { arguments: step.arguments } }),
    make: (end, content) => [stepSpan({ ...attributes, end, arguments: content["arguments"] })]
  })
}

/** Records the span of an outcome. It starts when the step was allowed: by a rule immediately, or when the approval closed. */
export const recordOutcomeSpan = (
  spans: Spans["Service"],
  traces: ReadonlyMap<SessionId, TraceId>,
  org_id: OrgId,
  session_id: SessionId,
  step: SavedStep,
  approval: Approval | null,
  { occurred_at, result, status }: StepOutcome
): Effect.Effect<void> => {
  const trace_id = traces.get(session_id)
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
        start: allowed_at.epochMilliseconds,
        end: occurred_at.epochMilliseconds,
        result: content["result"]
      })
    ]
  })
}
