import { Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { ApprovalId, type OrgId, SessionId, StepId, type TaskId } from "../../../domain/Ids.ts"
import { TimestampFromDate } from "../../../domain/Time.ts"
import { rowsOf } from "../../store/rows.ts"
import type { ReviewedStep } from "./readInput.ts"
import { parseArguments } from "../parseArguments.ts"

/** Approvals that one statement reads. */
export const PAGE_APPROVALS = 200

const unansweredRows = rowsOf(Schema.Struct({ approval_id: ApprovalId, tool: Schema.String }))

/** Reads the next approvals after an id about which a reviewer model has not answered, oldest first. */
export const readUnanswered = (sql: SqlClient.SqlClient, org_id: OrgId, task_id: TaskId, after: string) =>
  unansweredRows.all(sql`
    SELECT approval_id, tool
    FROM approvals
    WHERE org_id = ${org_id}
      AND approval_id > ${after}
      -- Looked up for each approval, because a join would read all answers of the reviewer.
      AND (
        SELECT 1
        FROM reviewer_answers
        WHERE reviewer_answers.org_id = ${org_id}
          AND reviewer_answers.session_id = approvals.session_id
          AND reviewer_answers.step_id = approvals.step_id
          AND reviewer_answers.task_id = ${task_id}
      ) IS NULL
    ORDER BY approval_id
    LIMIT ${PAGE_APPROVALS}
  `)

const stepRows = rowsOf(
  Schema.Struct({
    session_id: SessionId,
    step_id: StepId,
    tool: Schema.String,
    action_class: Schema.String,
    /** JSON text; null if the agent sent none. */
    arguments: Schema.NullOr(Schema.String),
    agent_summary: Schema.NullOr(Schema.String),
    rule_summary: Schema.NullOr(Schema.String),
    reason: Schema.String,
    requested_at: TimestampFromDate,
    comment: Schema.NullOr(Schema.String)
  })
)

/** The step of an approval as a reviewer model is asked about it. */
export interface ApprovalStep extends ReviewedStep {
  /** The comment of the person who decided. */
  readonly comment: string | null
}

/** Reads the step of an approval; undefined if it was deleted. */
export const readApprovalStep = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  approval_id: ApprovalId
) {
  const row = yield* stepRows.first(sql`
    SELECT
      session_id, step_id, approvals.tool, approvals.action_class, approvals.arguments::text AS arguments, agent_summary, rule_summary,
      reason, approvals.requested_at, comment
    FROM approvals
      JOIN governed_steps USING (org_id, session_id, step_id)
    WHERE approvals.org_id = ${org_id}
      AND approvals.approval_id = ${approval_id}
  `)
  if (row === undefined) return undefined
  const { arguments: text, ...step } = row
  const found: ApprovalStep = {
    ...step,
    org_id,
    arguments: text === null ? undefined : parseArguments(text)
  }
  return found
})
