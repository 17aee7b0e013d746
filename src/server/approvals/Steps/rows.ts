import { Effect, Option, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { type GovernedStep, StepDecision, type StepOutcome } from "../../../domain/approvals/AgentSession.ts"
import { ApprovalId, KeyId, OrgId, RuleId, SessionId, StepId, TaskId } from "../../../domain/Ids.ts"
import { TimestampFromDate, toDate } from "../../../domain/Time.ts"

/** A governed step as it was first asked for, and its outcome once there is one. */
const StepRow = Schema.Struct({
  org_id: OrgId,
  session_id: SessionId,
  step_id: StepId,
  task_id: Schema.NullOr(TaskId),
  tool: Schema.String,
  action_class: Schema.String,
  /** As JSON text; null where the agent gave no arguments at all, which is not the same as the text `null`. */
  arguments: Schema.NullOr(Schema.String),
  arguments_digest: Schema.String,
  rule_id: Schema.NullOr(RuleId),
  decision: StepDecision,
  reason: Schema.String,
  approval_id: Schema.NullOr(ApprovalId),
  requested_by_id: KeyId,
  requested_at: TimestampFromDate
})
type StepRow = typeof StepRow.Type

/** What a resume needs to know of the saved step. */
export const SavedStep = Schema.Struct({
  step_id: StepId,
  task_id: Schema.NullOr(TaskId),
  tool: Schema.String,
  action_class: Schema.String,
  arguments_digest: Schema.String,
  rule_id: Schema.NullOr(RuleId),
  decision: StepDecision,
  reason: Schema.String,
  approval_id: Schema.NullOr(ApprovalId),
  requested_at: TimestampFromDate,
  /** What the agent was last told. */
  last_decision: StepDecision,
  completed: Schema.Boolean
})
export type SavedStep = typeof SavedStep.Type

/** Writes a new step. */
export const insertStep = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, row: StepRow) {
  const values = yield* Schema.encodeEffect(StepRow)(row)
  yield* sql`INSERT INTO governed_steps ${sql.insert(values)}`
})

/** The saved step of this id, if there is one. */
export const findStep = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  session_id: SessionId,
  step_id: StepId
) {
  const rows = yield* sql`
    SELECT
      step_id, task_id, tool, action_class, arguments_digest, rule_id, decision, reason, approval_id, requested_at,
      coalesce(last_decision, decision) AS last_decision,
      outcome_at IS NOT NULL AS completed
    FROM governed_steps
    WHERE org_id = ${org_id}
      AND session_id = ${session_id}
      AND step_id = ${step_id}
  `
  return Option.fromUndefinedOr((yield* decodeSteps(rows))[0])
})

const decodeSteps = Schema.decodeUnknownEffect(Schema.Array(SavedStep))

/** Writes what the agent is told of a step now. */
export const updateLastDecision = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  session_id: SessionId,
  answer: GovernedStep
) =>
  sql`
    UPDATE governed_steps
    SET last_decision = ${answer.decision}
    WHERE org_id = ${org_id}
      AND session_id = ${session_id}
      AND step_id = ${answer.step_id}
  `

/** Writes what became of a step. */
export const updateOutcome = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  session_id: SessionId,
  outcome: StepOutcome
) =>
  sql`
    UPDATE governed_steps
    SET
      outcome_status = ${outcome.status},
      outcome_result = ${outcome.result === undefined ? null : JSON.stringify(outcome.result)},
      outcome_error = ${outcome.error},
      outcome_at = ${toDate(outcome.occurred_at)}
    WHERE org_id = ${org_id}
      AND session_id = ${session_id}
      AND step_id = ${outcome.step_id}
  `
