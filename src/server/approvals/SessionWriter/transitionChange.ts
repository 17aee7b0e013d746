import type { SqlClient } from "effect/sql"
import { boolArray, int4Array, textArray, timestamptzArray } from "../../store/pgArrays.ts"
import { approvalCounts, countedApprovalColumns } from "../approvalCounts.ts"
import { assignState, stateArrays, stateColumns } from "../Approvals/transitionRows.ts"
import type { ChangeOf, ChangePart, Op } from "./Op.ts"

/** Stores transitions of approvals, with their entries of the audit log. */
export const transitionChange = (
  sql: SqlClient.SqlClient,
  ops: ReadonlyArray<Op<ChangeOf<"Transition">>>
): ReadonlyArray<ChangePart> => {
  if (ops.length === 0) return []
  const from = ops.map(({ change }) => change.from)
  const to = ops.map(({ change }) => change.to)
  const audits = ops.map(({ change }) => change.audit)
  return [
    {
      name: "transitioned",
      ctes: [
        sql`
          transitioned AS (
            UPDATE approvals a
            SET
              ${assignState(sql, "n")}
            FROM unnest(
              ${int4Array(ops.map(({ op }) => op))}::int[],
              ${textArray(to.map((row) => row.approval_id))}::text[],
              ${textArray(from.map((row) => row.status))}::text[],
              ${textArray(from.map((row) => row.stage))}::text[],
              ${timestamptzArray(from.map((row) => row.expires_at))}::timestamptz[],
              ${boolArray(from.map((row) => row.expiring_notified))}::boolean[],
              ${int4Array(from.map(({ votes }) => votes?.length ?? 0))}::int[],
              ${stateArrays(sql, to)}
            ) AS n (
              op, approval_id, old_status, old_stage, old_expires_at, old_expiring_notified, old_approvals_given,
              ${sql.literal(stateColumns.join(", "))}
            )
              JOIN eligible e ON e.op = n.op
            WHERE a.org_id = e.org_id
              AND a.approval_id = n.approval_id
              AND a.status = n.old_status
              AND a.stage = n.old_stage
              -- A parameter has milliseconds; a row that something else has written may have microseconds.
              AND date_trunc('milliseconds', a.expires_at) = n.old_expires_at
              AND a.expiring_notified = n.old_expiring_notified
              -- Votes are only added: their number tells whether a concurrent one was.
              AND a.approvals_given = n.old_approvals_given
            RETURNING n.op, ${sql.literal(countedApprovalColumns("a"))}
          )`
      ],
      counts: to.some(({ status }) => status !== "pending") ? [approvalCounts(sql, "transitioned", 1)] : [],
      inserts: [
        sql`
          audited AS (
            INSERT INTO audit_log (
              org_id, entry_id, action, target_id, actor_id, actor_name, occurred_at, request_id, detail
            )
            SELECT a.org_id, n.entry_id, n.action, n.target_id, n.actor_id, n.actor_name, a.at, n.request_id, n.detail::json
            FROM unnest(
              ${int4Array(ops.map(({ op }) => op))}::int[],
              ${textArray(audits.map((row) => row.entry_id))}::text[],
              ${textArray(audits.map((row) => row.action))}::text[],
              ${textArray(audits.map((row) => row.target_id))}::text[],
              ${textArray(audits.map((row) => row.actor_id))}::text[],
              ${textArray(audits.map((row) => row.actor_name))}::text[],
              ${textArray(audits.map((row) => row.request_id))}::text[],
              ${textArray(audits.map((row) => row.detail))}::text[]
            ) AS n (op, entry_id, action, target_id, actor_id, actor_name, request_id, detail)
              JOIN numbered a ON a.op = n.op
            -- The audit chain locks one head per organization at the commit: all statements lock them in one order.
            ORDER BY a.org_id, n.op
          )`
      ]
    }
  ]
}
