import type { SqlClient } from "effect/sql"
import type { OrgId } from "../../../domain/Ids.ts"
import { onlyOrganization } from "../../store/onlyOrganization.ts"
import { int4Array, textArray } from "../../store/pgArrays.ts"
import {
  assignExecution,
  executionArrays,
  executionColumns,
  hasOldExecution,
  oldExecutionArrays,
  oldExecutionColumns
} from "../executionRows.ts"
import type { ChangeOf, ChangePart, Op } from "./Op.ts"

/** Stores other decisions of saved steps. */
export const decisionChange = (
  sql: SqlClient.SqlClient,
  ops: ReadonlyArray<Op<ChangeOf<"Decision">>>,
  org_id?: OrgId
): ReadonlyArray<ChangePart> =>
  ops.length === 0
    ? []
    : [
        {
          name: "redecided",
          ctes: [
            sql`
              redecided AS (
                UPDATE governed_steps s
                SET last_decision = n.new_decision
                FROM unnest(
                  ${int4Array(ops.map(({ op }) => op))}::int[],
                  ${textArray(ops.map(({ change }) => change.step_id))}::text[],
                  ${textArray(ops.map(({ change }) => change.from))}::text[],
                  ${textArray(ops.map(({ change }) => change.to))}::text[]
                ) AS n (op, step_id, old_decision, new_decision)
                  JOIN eligible e ON e.op = n.op
                WHERE s.org_id = e.org_id
                  AND s.session_id = e.session_id
                  AND s.step_id = n.step_id
                  ${onlyOrganization(sql, "s.org_id", org_id)}
                  AND s.outcome_at IS NULL
                  AND coalesce(s.last_decision, s.decision) = n.old_decision
                RETURNING n.op
              )`
          ],
          inserts: []
        }
      ]

/** Stores claims, their renewals and their ends. */
export const executionChange = (
  sql: SqlClient.SqlClient,
  ops: ReadonlyArray<Op<ChangeOf<"Execution">>>,
  org_id?: OrgId
): ReadonlyArray<ChangePart> => {
  if (ops.length === 0) return []
  const executions = ops.map(({ change: { from, to } }) => ({ from: from.execution, to: to.execution }))
  return [
    {
      name: "executions",
      ctes: [
        sql`
          executions AS (
            UPDATE governed_steps s
            SET last_decision = n.new_decision, ${sql.literal(assignExecution)}
            FROM unnest(
              ${int4Array(ops.map(({ op }) => op))}::int[],
              ${textArray(ops.map(({ change }) => change.step_id))}::text[],
              ${textArray(ops.map(({ change }) => change.from.decision))}::text[],
              ${textArray(ops.map(({ change }) => change.to.decision))}::text[],
              ${executionArrays(sql, executions)},
              ${oldExecutionArrays(sql, executions)}
            ) AS n (
              op, step_id, old_decision, new_decision, ${sql.literal(executionColumns)}, ${sql.literal(oldExecutionColumns)}
            )
              JOIN eligible e ON e.op = n.op
            WHERE s.org_id = e.org_id
              AND s.session_id = e.session_id
              AND s.step_id = n.step_id
              ${onlyOrganization(sql, "s.org_id", org_id)}
              AND s.outcome_at IS NULL
              AND coalesce(s.last_decision, s.decision) = n.old_decision
              AND ${sql.literal(hasOldExecution)}
            RETURNING n.op
          )`
      ],
      inserts: []
    }
  ]
}

/** Stores the outcomes of steps. A statement names only the columns of executions that it changes: mostly none, or the state. */
export const outcomeChange = (
  sql: SqlClient.SqlClient,
  ops: ReadonlyArray<Op<ChangeOf<"Outcome">>>,
  org_id?: OrgId
): ReadonlyArray<ChangePart> => {
  if (ops.length === 0) return []
  const executions = ops.map(({ change }) => change.execution)
  const isClaimed = executions.some(({ to }) => to !== null)
  const isUncertain = executions.some(({ to }) => to !== null && to.unknown_at !== null)
  const ifUncertain = (text: string) => sql.literal(isUncertain ? text : "")
  const ifClaimed = (text: string) => sql.literal(isClaimed && !isUncertain ? text : "")
  return [
    {
      name: "completed",
      ctes: [
        sql`
          completed AS (
            UPDATE governed_steps s
            SET
              outcome_status = n.status, outcome_result = n.result::json, outcome_error = n.error, outcome_at = e.at
              ${ifUncertain(`, ${assignExecution}`)}
              ${ifClaimed(", execution = CASE WHEN n.old_claim_id IS NOT NULL THEN 'completed' END")}
            FROM unnest(
              ${int4Array(ops.map(({ op }) => op))}::int[],
              ${textArray(ops.map(({ change }) => change.outcome.step_id))}::text[],
              ${textArray(ops.map(({ change }) => change.outcome.status))}::text[],
              ${textArray(
                ops.map(({ change: { outcome } }) =>
                  outcome.result === undefined ? null : JSON.stringify(outcome.result)
                )
              )}::text[],
              ${textArray(ops.map(({ change }) => change.outcome.error))}::text[],
              ${textArray(ops.map(({ change }) => change.last_decision))}::text[]
              ${isUncertain ? sql`, ${executionArrays(sql, executions)}` : sql.literal("")}
              ${isClaimed ? sql`, ${oldExecutionArrays(sql, executions)}` : sql.literal("")}
            ) AS n (
              op, step_id, status, result, error, last_decision
              ${ifUncertain(`, ${executionColumns}`)}
              ${sql.literal(isClaimed ? `, ${oldExecutionColumns}` : "")}
            )
              JOIN eligible e ON e.op = n.op
            WHERE s.org_id = e.org_id
              AND s.session_id = e.session_id
              AND s.step_id = n.step_id
              ${onlyOrganization(sql, "s.org_id", org_id)}
              AND s.outcome_at IS NULL
              AND coalesce(s.last_decision, s.decision) = n.last_decision
              AND ${sql.literal(isClaimed ? hasOldExecution : "s.claim_id IS NULL")}
            RETURNING n.op
          )`
      ],
      inserts: []
    }
  ]
}
