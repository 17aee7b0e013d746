import { Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import type { ShadowCursor, ShadowDifferencesQuery } from "../../../api/ApprovalRules.ts"
import { StepDecision } from "../../../domain/approvals/AgentSession.ts"
import { ApprovalOutcome, DecisionSource } from "../../../domain/approvals/Approval.ts"
import { RuleEffect } from "../../../domain/approvals/ApprovalRule.ts"
import { recordedEffect } from "../../../domain/approvals/RuleTest.ts"
import {
  differentEffects,
  MAX_COUNTED_DIFFERENCES,
  type ShadowChange,
  type ShadowDifference
} from "../../../domain/approvals/ShadowDifference.ts"
import { ApprovalId, type OrgId, RuleId, SessionId, StepId, TaskId } from "../../../domain/Ids.ts"
import { TimestampFromDate } from "../../../domain/Time.ts"
import { rowLimit } from "../../store/Pagination.ts"
import { textArray } from "../../store/pgArrays.ts"
import { rowsOf } from "../../store/rows.ts"

const differenceRows = rowsOf(
  Schema.Struct({
    session_id: SessionId,
    step_id: StepId,
    task_id: Schema.NullOr(TaskId),
    tool: Schema.String,
    action_class: Schema.String,
    requested_at: TimestampFromDate,
    decision: StepDecision,
    rule_id: Schema.NullOr(RuleId),
    reason: Schema.String,
    shadow_effect: RuleEffect,
    shadow_rule_id: Schema.NullOr(RuleId),
    shadow_reason: Schema.String,
    approval_id: Schema.NullOr(ApprovalId),
    outcome: Schema.NullOr(ApprovalOutcome),
    decision_source: Schema.NullOr(DecisionSource)
  })
)

/** The first decision that an effect leads to. */
const decisionOf = (effect: RuleEffect): StepDecision => (effect === "require_approval" ? "pending" : effect)

/** The place of a difference in the list, as text: `1763820000000 ses_… step`. */
export const formatCursor = ({ requested_at, session_id, step_id }: ShadowDifference): ShadowCursor =>
  `${requested_at.epochMilliseconds} ${session_id} ${step_id}`

const parseCursor = (cursor: ShadowCursor) => {
  const [millis = "", session_id = ""] = cursor.split(" ", 2)
  return {
    requested_at: new Date(Number(millis)),
    session_id,
    step_id: cursor.slice(millis.length + session_id.length + 2)
  }
}

/** The pairs of effects that a statement reads. */
const pairsOf = ({ live, shadow }: Pick<ShadowDifferencesQuery, "live" | "shadow">) =>
  differentEffects.filter(
    (pair) => (live === undefined || pair.live === live) && (shadow === undefined || pair.shadow === shadow)
  )

/** A table of pairs of effects, for a range of the index `governed_steps_shadow` each. */
const pairTable = (sql: SqlClient.SqlClient, pairs: typeof differentEffects) => sql`
  unnest(
    ${textArray(pairs.map(({ live }) => decisionOf(live)))}::text[],
    ${textArray(pairs.map(({ shadow }) => shadow))}::text[]
  ) AS pair (decision, effect)`

/**
 * Reads the differences of a shadow list, newest first, one more than the page: the newest of each pair of effects by the index
 * `governed_steps_shadow`, merged.
 */
export const listDifferences = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  revision: number,
  query: ShadowDifferencesQuery
) => {
  const limit = rowLimit(query)
  const after = query.cursor === undefined ? undefined : parseCursor(query.cursor)
  return Effect.map(
    differenceRows.all(sql`
      SELECT
        step.session_id, step.step_id, step.task_id, step.tool, step.action_class, step.requested_at, step.decision, step.rule_id,
        step.reason, step.shadow_effect, step.shadow_rule_id, step.shadow_reason, step.approval_id, approval.outcome,
        approval.decision_source
      FROM (
        SELECT newest.*
        FROM ${pairTable(sql, pairsOf(query))},
          LATERAL (
            SELECT *
            FROM governed_steps
            WHERE org_id = ${org_id}
              AND shadow_revision = ${revision}
              AND decision = pair.decision
              AND shadow_effect = pair.effect
              ${
                after === undefined
                  ? sql.literal("")
                  : sql`AND (requested_at, session_id, step_id) < (${after.requested_at}, ${after.session_id}, ${after.step_id})`
              }
            ORDER BY requested_at DESC, session_id DESC, step_id DESC
            LIMIT ${limit}
          ) AS newest
        ORDER BY newest.requested_at DESC, newest.session_id DESC, newest.step_id DESC
        LIMIT ${limit}
      ) AS step
        LEFT JOIN approvals AS approval ON approval.org_id = step.org_id AND approval.approval_id = step.approval_id
      ORDER BY step.requested_at DESC, step.session_id DESC, step.step_id DESC
    `),
    (rows) =>
      rows.map(
        ({
          decision,
          reason,
          rule_id,
          shadow_effect,
          shadow_reason,
          shadow_rule_id,
          ...step
        }): ShadowDifference => ({
          ...step,
          live: { effect: recordedEffect(decision), rule_id, reason },
          shadow: { effect: shadow_effect, rule_id: shadow_rule_id, reason: shadow_reason }
        })
      )
  )
}

const countRows = rowsOf(Schema.Struct({ decision: StepDecision, effect: RuleEffect, steps: Schema.Int }))

/** Counts the differences of a shadow list by both effects, each up to `MAX_COUNTED_DIFFERENCES`, by the same index. */
export const countDifferences = (sql: SqlClient.SqlClient, org_id: OrgId, revision: number) =>
  Effect.map(
    countRows.all(sql`
      SELECT pair.decision, pair.effect, counted.steps
      FROM ${pairTable(sql, differentEffects)},
        LATERAL (
          SELECT count(*)::int AS steps
          FROM (
            SELECT
            FROM governed_steps
            WHERE org_id = ${org_id}
              AND shadow_revision = ${revision}
              AND decision = pair.decision
              AND shadow_effect = pair.effect
            LIMIT ${MAX_COUNTED_DIFFERENCES}
          ) AS found
        ) AS counted
      WHERE counted.steps > 0
      ORDER BY counted.steps DESC, pair.decision, pair.effect
    `),
    (rows) =>
      rows.map(({ decision, effect, steps }): ShadowChange => ({
        live: recordedEffect(decision),
        shadow: effect,
        steps
      }))
  )
