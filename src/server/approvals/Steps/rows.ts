import { Effect, Option, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { type GovernedStep, StepDecision, type StepOutcome } from "../../../domain/approvals/AgentSession.ts"
import { RuleEffect } from "../../../domain/approvals/ApprovalRule.ts"
import { ApprovalId, GrantId, KeyId, OrgId, RuleId, SessionId, StepId, TaskId } from "../../../domain/Ids.ts"
import { JsonValue } from "../../../domain/json/JsonValue.ts"
import { TimestampFromDate, toDate } from "../../../domain/Time.ts"
import { rowsOf } from "../../store/rows.ts"

/** A row of `governed_steps` when it is inserted: the first request of a step, and its decision. */
const StepRow = Schema.Struct({
  org_id: OrgId,
  session_id: SessionId,
  step_id: StepId,
  task_id: Schema.NullOr(TaskId),
  tool: Schema.String,
  action_class: Schema.String,
  /** JSON text; null if the agent sent no arguments, which differs from the text `null`. */
  arguments: Schema.NullOr(Schema.String),
  arguments_digest: Schema.String,
  rule_id: Schema.NullOr(RuleId),
  decision: StepDecision,
  reason: Schema.String,
  approval_id: Schema.NullOr(ApprovalId),
  /** The approval whose counter-proposal allowed the step. */
  proposal_approval_id: Schema.NullOr(ApprovalId),
  grant_id: Schema.NullOr(GrantId),
  requested_by_id: KeyId,
  requested_at: TimestampFromDate,
  /** Null unless the shadow rules have another effect; so are the three columns below. */
  shadow_effect: Schema.NullOr(RuleEffect),
  shadow_rule_id: Schema.NullOr(RuleId),
  shadow_reason: Schema.NullOr(Schema.String),
  shadow_revision: Schema.NullOr(Schema.Int)
})
export type StepRow = typeof StepRow.Type

/** The columns of a saved step that a resume needs. */
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
  proposal_approval_id: Schema.NullOr(ApprovalId),
  grant_id: Schema.NullOr(GrantId),
  requested_at: TimestampFromDate,
  /** The decision of the last response to the agent. */
  last_decision: StepDecision,
  completed: Schema.Boolean
})
export type SavedStep = typeof SavedStep.Type

/** Inserts a step. */
export const insertStep = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, row: StepRow) {
  const values = yield* Schema.encodeEffect(StepRow)(row)
  yield* sql`INSERT INTO governed_steps ${sql.insert(values)}`
})

const savedSteps = rowsOf(SavedStep)

/** The saved step with this id. */
export const findStep = (sql: SqlClient.SqlClient, org_id: OrgId, session_id: SessionId, step_id: StepId) =>
  savedSteps
    .first(
      sql`
    SELECT
      step_id, task_id, tool, action_class, arguments_digest, rule_id, decision, reason, approval_id,
      proposal_approval_id, grant_id, requested_at, coalesce(last_decision, decision) AS last_decision,
      outcome_at IS NOT NULL AS completed
    FROM governed_steps
    WHERE org_id = ${org_id}
      AND session_id = ${session_id}
      AND step_id = ${step_id}
  `
    )
    .pipe(Effect.map(Option.fromUndefinedOr))

const argumentRows = rowsOf(Schema.Struct({ text: Schema.NullOr(Schema.String) }))

const parseArguments = Schema.decodeEffect(Schema.fromJsonString(JsonValue))

/** The arguments of a saved step; undefined if the agent sent none. */
export const readArguments = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  session_id: SessionId,
  step_id: StepId
): Effect.Effect<Schema.Json | undefined> =>
  argumentRows
    .first(
      sql`
        SELECT arguments::text AS text
        FROM governed_steps
        WHERE org_id = ${org_id}
          AND session_id = ${session_id}
          AND step_id = ${step_id}
      `
    )
    .pipe(
      Effect.flatMap((row) =>
        row === undefined || row.text === null ? Effect.undefined : parseArguments(row.text)
      ),
      Effect.orDie
    )

/** Stores the decision of the current response to the agent. */
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

/** Stores the outcome of a step. */
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
