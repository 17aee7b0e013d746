import { Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { StepDecision } from "../../../domain/approvals/AgentSession.ts"
import { ApprovalOutcome, DecisionSource } from "../../../domain/approvals/Approval.ts"
import { ApprovalId, KeyId, type OrgId, SessionId, StepId, TaskId } from "../../../domain/Ids.ts"
import { type Timestamp, TimestampFromDate, toDate } from "../../../domain/Time.ts"
import { rowsOf } from "../../store/rows.ts"

/** Steps that one statement reads. */
export const PAGE_STEPS = 250

/**
 * Largest arguments that are read with a page: as they are stored, perhaps compressed, and as text. Larger ones, of up to 4 MiB, are read
 * one by one. So a page has at most 2 MB, and the database decompresses little for it, because other statements wait behind it on the
 * connection.
 */
const MAX_STORED_BYTES = 1_024
const MAX_TEXT_BYTES = 8_192

/** A recorded step, with the outcome of its approval. */
const StepOfPage = Schema.Struct({
  session_id: SessionId,
  step_id: StepId,
  task_id: Schema.NullOr(TaskId),
  tool: Schema.String,
  action_class: Schema.String,
  has_arguments: Schema.Boolean,
  /** JSON text; null if there are none, or if they are to be read by `readArguments`. */
  arguments: Schema.NullOr(Schema.String),
  /** The first decision. */
  decision: StepDecision,
  /** Whether a grant or a counter-proposal allowed the step, although the rules required an approval. */
  was_allowed_before: Schema.Boolean,
  /** Whether a reviewer model decided the step. */
  was_decided_by_model: Schema.Boolean,
  requested_at: TimestampFromDate,
  requested_by_id: KeyId,
  approval_id: Schema.NullOr(ApprovalId),
  outcome: Schema.NullOr(ApprovalOutcome),
  decision_source: Schema.NullOr(DecisionSource),
  decided_at: Schema.NullOr(TimestampFromDate),
  decided_by_id: Schema.NullOr(KeyId),
  decided_by_name: Schema.NullOr(Schema.String),
  comment: Schema.NullOr(Schema.String)
})
export type StepOfPage = typeof StepOfPage.Type

/** The last step of a page: the next one starts after it. */
export type StepCursor = Pick<StepOfPage, "requested_at" | "session_id" | "step_id">

/** The steps to read. */
export interface StepWindow {
  readonly org_id: OrgId
  readonly since: Timestamp
  readonly until: Timestamp
  /** Whether to read the arguments. */
  readonly withArguments: boolean
  /** Oldest first: the order in which budgets are used. */
  readonly inOrder: boolean
}

const pageRows = rowsOf(StepOfPage)

/**
 * Reads a page of the steps of a window, newest or oldest first, by the index `governed_steps_requested_at`. Each page is a statement of its own, so that
 * no snapshot or connection is kept while a test runs.
 */
export const readSteps = (sql: SqlClient.SqlClient, window: StepWindow, after: StepCursor | undefined) =>
  pageRows.all(stepsStatement(sql, window, after))

/** The statement of a page. */
export const stepsStatement = (
  sql: SqlClient.SqlClient,
  { inOrder, org_id, since, until, withArguments }: StepWindow,
  after: StepCursor | undefined
) => {
  const direction = sql.literal(inOrder ? "ASC" : "DESC")
  const beyond = sql.literal(inOrder ? ">" : "<")
  return sql`
  SELECT
    step.session_id, step.step_id, step.task_id, step.tool, step.action_class,
    step.arguments IS NOT NULL AS has_arguments,
    ${
      withArguments
        ? sql`
          CASE
            WHEN pg_column_size(step.arguments) <= ${MAX_STORED_BYTES}::int
              AND octet_length(step.arguments::text) <= ${MAX_TEXT_BYTES}::int
            THEN step.arguments::text
          END`
        : sql.literal("NULL::text")
    } AS arguments,
    step.decision, (step.grant_id IS NOT NULL OR step.proposal_approval_id IS NOT NULL) AS was_allowed_before,
    step.reviewer_task_id IS NOT NULL AS was_decided_by_model,
    step.requested_at, step.requested_by_id, step.approval_id, approval.outcome, approval.decision_source, approval.decided_at,
    approval.decided_by_id, approval.decided_by_name, approval.comment
  FROM (
    SELECT *
    FROM governed_steps
    WHERE org_id = ${org_id}
      AND requested_at >= ${toDate(since)}
      AND requested_at < ${toDate(until)}
      ${
        after === undefined
          ? sql.literal("")
          : sql`AND (requested_at, session_id, step_id) ${beyond} (${toDate(after.requested_at)}, ${after.session_id}, ${after.step_id})`
      }
    ORDER BY requested_at ${direction}, session_id ${direction}, step_id ${direction}
    LIMIT ${PAGE_STEPS}
  ) AS step
    LEFT JOIN approvals AS approval ON approval.org_id = step.org_id AND approval.approval_id = step.approval_id
  ORDER BY step.requested_at ${direction}, step.session_id ${direction}, step.step_id ${direction}
`
}

const argumentRows = rowsOf(Schema.Struct({ arguments: Schema.NullOr(Schema.String) }))

/** Reads the arguments of one step. Null: none, or the step was deleted meanwhile. */
export const readArguments = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  { session_id, step_id }: Pick<StepOfPage, "session_id" | "step_id">
) =>
  Effect.map(
    argumentRows.first(sql`
      SELECT arguments::text AS arguments
      FROM governed_steps
      WHERE org_id = ${org_id}
        AND session_id = ${session_id}
        AND step_id = ${step_id}
    `),
    (row) => row?.arguments ?? null
  )
