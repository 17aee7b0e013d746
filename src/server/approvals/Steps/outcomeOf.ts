import type { OutcomeReport } from "../../../api/AgentSessions.ts"
import type { StepOutcome } from "../../../domain/approvals/AgentSession.ts"
import { type ExecutionRecord, isLate } from "../../../domain/approvals/Execution.ts"
import type { StepId } from "../../../domain/Ids.ts"
import type { Timestamp } from "../../../domain/Time.ts"

/** The outcome that a report describes, and its execution once it is completed; null: the step was not claimed. */
export const outcomeOf = (
  step_id: StepId,
  report: OutcomeReport,
  execution: ExecutionRecord | null,
  now: Timestamp
): StepOutcome => ({
  step_id,
  status: report.status,
  ...(report.result === undefined ? {} : { result: report.result }),
  error: report.error ?? null,
  occurred_at: now,
  ...(execution !== null && isLate(execution) ? { late: true } : {})
})
