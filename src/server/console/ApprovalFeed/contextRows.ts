import { Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import {
  type ContextOutcome,
  type EarlierStep,
  MAX_CONTEXT_BYTES,
  MAX_EARLIER_STEPS,
  MAX_TOOL_DECISIONS,
  type ToolHistory
} from "../../../api/Console.ts"
import { OutcomeStatus, StepDecision } from "../../../domain/approvals/AgentSession.ts"
import { type ApprovalId, KeyId, type OrgId, RuleId, SessionId, StepId, TaskId } from "../../../domain/Ids.ts"
import { JsonValue } from "../../../domain/json/JsonValue.ts"
import { TimestampFromDate, toDate } from "../../../domain/Time.ts"
import { rowsOf } from "../../store/rows.ts"

const outcomeFields = {
  outcome_status: Schema.NullOr(OutcomeStatus),
  outcome_result: Schema.NullOr(Schema.String),
  outcome_result_too_large: Schema.Boolean,
  outcome_error: Schema.NullOr(Schema.String),
  outcome_at: Schema.NullOr(TimestampFromDate)
}

/**
 * SQL of a JSON column as text: null if it is larger than `MAX_CONTEXT_BYTES`. The stored, compressed size is compared
 * first, so that a large value is not read.
 */
export const textWithinLimit = (column: string): string =>
  `CASE WHEN pg_column_size(${column}) <= ${MAX_CONTEXT_BYTES} AND octet_length(${column}::text) <= ${MAX_CONTEXT_BYTES} THEN ${column}::text END`

const outcomeColumns = `
      step.outcome_status,
      ${textWithinLimit("step.outcome_result")} AS outcome_result,
      step.outcome_result IS NOT NULL AND ${textWithinLimit("step.outcome_result")} IS NULL AS outcome_result_too_large,
      step.outcome_error,
      step.outcome_at`

const ContextRow = Schema.Struct({
  session_id: SessionId,
  step_id: StepId,
  requested_at: TimestampFromDate,
  requested_by_id: KeyId,
  requested_by_name: Schema.NullOr(Schema.String),
  tool: Schema.String,
  action_class: Schema.String,
  task_id: Schema.NullOr(TaskId),
  metadata: Schema.Record(Schema.String, JsonValue),
  reason: Schema.NullOr(Schema.String),
  rule_id: Schema.NullOr(RuleId),
  ...outcomeFields
})

const contextRows = rowsOf(ContextRow)

/** The context of an approval, without the earlier steps; undefined if the organization has no such approval. */
export const findContext = (sql: SqlClient.SqlClient, org_id: OrgId, id: ApprovalId) =>
  contextRows.first(sql`
    SELECT
      approvals.session_id,
      approvals.step_id,
      approvals.requested_at,
      approvals.requested_by_id,
      api_keys.name AS requested_by_name,
      approvals.tool,
      approvals.action_class,
      approvals.task_id,
      agent_sessions.metadata,
      step.reason,
      step.rule_id,
      ${sql.literal(outcomeColumns)}
    FROM approvals
      JOIN agent_sessions USING (org_id, session_id)
      LEFT JOIN governed_steps AS step USING (org_id, session_id, step_id)
      LEFT JOIN api_keys ON api_keys.org_id = approvals.org_id
        AND api_keys.key_id = approvals.requested_by_id
    WHERE approvals.org_id = ${org_id}
      AND approvals.approval_id = ${id}
  `)

const historyRows = rowsOf(
  Schema.Struct({
    decisions: Schema.Int,
    approved: Schema.Int,
    median_seconds: Schema.NullOr(Schema.Finite)
  })
)

/** How people decided the newest approvals of a tool, without this one. */
export const findToolHistory = (sql: SqlClient.SqlClient, org_id: OrgId, id: ApprovalId, tool: string) =>
  Effect.map(
    historyRows.first(toolHistoryStatement(sql, org_id, id, tool)),
    (row): ToolHistory => row ?? { decisions: 0, approved: 0, median_seconds: null }
  )

/** Reads `MAX_TOOL_DECISIONS` entries of the index, and one more. */
export const toolHistoryStatement = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  id: ApprovalId,
  tool: string
) => sql`
  SELECT
    count(*)::int AS decisions,
    count(*) FILTER (WHERE outcome = 'allow')::int AS approved,
    (percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM decided_at - requested_at)))::float8 AS median_seconds
  FROM (
    SELECT outcome, decided_at, requested_at
    FROM approvals
    WHERE org_id = ${org_id}
      AND tool = ${tool}
      AND decision_source = 'human'
      AND approval_id <> ${id}
    ORDER BY decided_at DESC
    LIMIT ${MAX_TOOL_DECISIONS}
  ) AS newest
`

const EarlierStepRow = Schema.Struct({
  step_id: StepId,
  tool: Schema.String,
  requested_at: TimestampFromDate,
  decision: StepDecision,
  arguments: Schema.NullOr(Schema.String),
  arguments_too_large: Schema.Boolean,
  ...outcomeFields
})

const earlierStepRows = rowsOf(EarlierStepRow)

/** The keys by which the earlier steps are found. */
type StepBefore = Pick<typeof ContextRow.Type, "requested_at" | "session_id" | "step_id">

/** The steps of the session before this one, newest first: one more than `MAX_EARLIER_STEPS`, if there are as many. */
export const findEarlierSteps = (sql: SqlClient.SqlClient, org_id: OrgId, before: StepBefore) =>
  earlierStepRows.all(earlierStepsStatement(sql, org_id, before))

/** The index of a session's steps by time has a hash of the session. */
export const earlierStepsStatement = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  { requested_at, session_id, step_id }: StepBefore
) =>
  sql`
    WITH earlier AS MATERIALIZED (
      SELECT step_id, requested_at
      FROM governed_steps
      WHERE org_id = ${org_id}
        AND session_id = ${session_id}
        AND hashtextextended(session_id, 0) = hashtextextended(${session_id}, 0)
        AND requested_at <= ${toDate(requested_at)}::timestamptz
        AND step_id <> ${step_id}
      ORDER BY requested_at DESC, step_id DESC
      LIMIT ${MAX_EARLIER_STEPS + 1}
    )
    SELECT
      step.step_id,
      step.tool,
      step.requested_at,
      CASE
        WHEN step.decision <> 'pending' THEN step.decision
        ELSE coalesce(approvals.outcome, 'pending')
      END AS decision,
      ${sql.literal(textWithinLimit("step.arguments"))} AS arguments,
      step.arguments IS NOT NULL AND ${sql.literal(textWithinLimit("step.arguments"))} IS NULL AS arguments_too_large,
      ${sql.literal(outcomeColumns)}
    FROM earlier
      JOIN governed_steps AS step ON step.org_id = ${org_id}
        AND step.session_id = ${session_id}
        AND step.step_id = earlier.step_id
      LEFT JOIN approvals ON approvals.org_id = ${org_id}
        AND approvals.approval_id = step.approval_id
    ORDER BY earlier.requested_at DESC, earlier.step_id DESC
  `

/** The outcome of a row; null if none was reported. */
export const toContextOutcome = (
  row: Pick<typeof EarlierStepRow.Type, keyof typeof outcomeFields>
): ContextOutcome | null =>
  row.outcome_status === null || row.outcome_at === null
    ? null
    : {
        status: row.outcome_status,
        result_json: row.outcome_result,
        result_too_large: row.outcome_result_too_large,
        error: row.outcome_error,
        occurred_at: row.outcome_at
      }

/** A row as the console's API returns it. */
export const toEarlierStep = (row: typeof EarlierStepRow.Type): EarlierStep => ({
  step_id: row.step_id,
  tool: row.tool,
  requested_at: row.requested_at,
  decision: row.decision,
  arguments_json: row.arguments,
  arguments_too_large: row.arguments_too_large,
  outcome: toContextOutcome(row)
})
