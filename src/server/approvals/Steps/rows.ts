import { Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { StepDecision, StepReviewer } from "../../../domain/approvals/AgentSession.ts"
import type { RuleEffect } from "../../../domain/approvals/ApprovalRule.ts"
import type { StoredStep } from "../../../domain/approvals/StepDecision.ts"
import {
  ApprovalId,
  GrantId,
  type KeyId,
  type OrgId,
  RuleId,
  type SessionId,
  StepId,
  TaskId
} from "../../../domain/Ids.ts"
import { type Timestamp, TimestampFromDate } from "../../../domain/Time.ts"
import { rowsOf } from "../../store/rows.ts"
import { parseArguments } from "../parseArguments.ts"

/** A row of `governed_steps` when it is inserted: the first request of a step, and its decision. */
export interface StepRow extends StoredStep {
  readonly org_id: OrgId
  readonly session_id: SessionId
  readonly task_id: TaskId | null
  /** JSON text; null if the agent sent no arguments, which differs from the text `null`. */
  readonly arguments: string | null
  readonly requested_by_id: KeyId
  readonly requested_at: Timestamp
  /** Null unless the shadow rules have another effect; so are the three members below. */
  readonly shadow_effect: RuleEffect | null
  readonly shadow_rule_id: RuleId | null
  readonly shadow_reason: string | null
  readonly shadow_revision: number | null
}

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
  reviewer: Schema.NullOr(StepReviewer),
  requested_at: TimestampFromDate,
  /** The decision of the last response to the agent. */
  last_decision: StepDecision,
  completed: Schema.Boolean
})
export type SavedStep = typeof SavedStep.Type

const argumentRows = rowsOf(Schema.Struct({ text: Schema.NullOr(Schema.String) }))

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
      Effect.map((row) => (row === undefined || row.text === null ? undefined : parseArguments(row.text))),
      Effect.orDie
    )
