import type { SqlClient } from "effect/sql"
import type { OrgId } from "../../../domain/Ids.ts"
import { onlyOrganization } from "../../store/onlyOrganization.ts"
import { int4Array, textArray } from "../../store/pgArrays.ts"
import type { ChangeOf, ChangePart, Op } from "./Op.ts"

/** Stores other decisions of saved steps. */
export const decisionChange = (
  sql: SqlClient.SqlClient,
  ops: ReadonlyArray<Op<ChangeOf<"Decision">>>,
  org_id: OrgId | undefined
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

/** Stores the outcomes of steps. */
export const outcomeChange = (
  sql: SqlClient.SqlClient,
  ops: ReadonlyArray<Op<ChangeOf<"Outcome">>>,
  org_id: OrgId | undefined
): ReadonlyArray<ChangePart> =>
  ops.length === 0
    ? []
    : [
        {
          name: "completed",
          ctes: [
            sql`
              completed AS (
                UPDATE governed_steps s
                SET outcome_status = n.status, outcome_result = n.result::json, outcome_error = n.error, outcome_at = e.at
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
                ) AS n (op, step_id, status, result, error, last_decision)
                  JOIN eligible e ON e.op = n.op
                WHERE s.org_id = e.org_id
                  AND s.session_id = e.session_id
                  AND s.step_id = n.step_id
                  ${onlyOrganization(sql, "s.org_id", org_id)}
                  AND s.outcome_at IS NULL
                  AND coalesce(s.last_decision, s.decision) = n.last_decision
                RETURNING n.op
              )`
          ],
          inserts: []
        }
      ]
