import { Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { MAX_SAMPLED_BYTES } from "../../../api/ApprovalRules.ts"
import { ApprovalId, KeyId, type OrgId, StepId, TaskId } from "../../../domain/Ids.ts"
import { ApprovalOutcome, DecisionSource } from "../../../domain/approvals/Approval.ts"
import { TimestampFromDate } from "../../../domain/Time.ts"
import { rowsOf } from "../../store/rows.ts"

/** Decisions that one statement reads: with the largest arguments, 2 MiB. */
const PAGE_DECISIONS = 500

/** A decision about a step. */
const DecidedStep = Schema.Struct({
  approval_id: ApprovalId,
  step_id: StepId,
  task_id: Schema.NullOr(TaskId),
  tool: Schema.String,
  action_class: Schema.String,
  /** JSON text; null if the agent sent none or they are too large. */
  arguments: Schema.NullOr(Schema.String),
  arguments_bytes: Schema.Int,
  requested_at: TimestampFromDate,
  requested_by_id: KeyId,
  outcome: ApprovalOutcome,
  decision_source: DecisionSource,
  decided_at: TimestampFromDate,
  decided_by_id: Schema.NullOr(KeyId)
})
export type DecidedStep = typeof DecidedStep.Type

const decidedRows = rowsOf(DecidedStep)

/**
 * Reads the newest decided approvals, newest request first, from after `before`: the newest of both statuses by the index
 * `approvals_status`, merged.
 */
export const readDecisions = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  before: ApprovalId | undefined,
  wanted: number
) => {
  const limit = Math.min(PAGE_DECISIONS, wanted)
  const newest = (status: "approved" | "rejected") => sql`(
    SELECT approval_id
    FROM approvals
    WHERE org_id = ${org_id}
      AND status = ${status}
      ${before === undefined ? sql.literal("") : sql`AND approval_id < ${before}`}
    ORDER BY approval_id DESC
    LIMIT ${limit}
  )`
  return Effect.map(
    decidedRows.all(sql`
      SELECT
        approval_id, step_id, task_id, tool, action_class,
        CASE WHEN arguments_bytes <= ${MAX_SAMPLED_BYTES}::int THEN arguments::text END AS arguments, arguments_bytes,
        requested_at, requested_by_id, outcome, decision_source, decided_at, decided_by_id
      FROM (
        SELECT approval_id
        FROM (${newest("approved")} UNION ALL ${newest("rejected")}) AS merged
        ORDER BY approval_id DESC
        LIMIT ${limit}
      ) AS newest
        JOIN approvals USING (approval_id)
      WHERE org_id = ${org_id}
      ORDER BY approval_id DESC
    `),
    (decisions) => ({ decisions, isLast: decisions.length < limit })
  )
}
