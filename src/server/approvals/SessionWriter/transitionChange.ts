import type { SqlClient } from "effect/sql"
import type { ApprovalId, OrgId } from "../../../domain/Ids.ts"
import { appendedEntries, auditRowsTable } from "../../identity/auditWrites.ts"
import { onlyOrganization } from "../../store/onlyOrganization.ts"
import { boolArray, int4Array, textArray, timestamptzArray } from "../../store/pgArrays.ts"
import { approvalCounts, countedApprovalColumns } from "../approvalCounts.ts"
import { assignState, stateArrays, stateColumns } from "../Approvals/transitionRows.ts"
import type { ChangeOf, ChangePart, Op } from "./Op.ts"
import { auditOf } from "./SessionWrite.ts"

/** Stores transitions of approvals. */
export const transitionChange = (
  sql: SqlClient.SqlClient,
  ops: ReadonlyArray<Op<ChangeOf<"Transition">>>,
  org_id?: OrgId
): ReadonlyArray<ChangePart> => {
  if (ops.length === 0) return []
  const from = ops.map(({ change }) => change.from)
  const to = ops.map(({ change }) => change.to)
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
              AND date_trunc('milliseconds', a.expires_at AT TIME ZONE 'UTC') = n.old_expires_at AT TIME ZONE 'UTC'
              AND a.expiring_notified = n.old_expiring_notified
              -- Votes are only added: their number tells whether a concurrent one was.
              AND a.approvals_given = n.old_approvals_given
              ${onlyOrganization(sql, "a.org_id", org_id)}
            RETURNING n.op, ${sql.literal(countedApprovalColumns("a"))}
          )`
      ],
      counts: to.some(({ status }) => status !== "pending") ? [approvalCounts(sql, "transitioned", 1)] : [],
      inserts: []
    }
  ]
}

/** CTEs that write the entries of the audit log about decisions of people and of reviewer models. */
export const auditEntries = (sql: SqlClient.SqlClient, ops: ReadonlyArray<Op>) => {
  const entries = ops.flatMap(({ op, write }) => {
    const audit = auditOf(write)
    return audit === null ? [] : [{ op, row: { ...audit, occurred_at: write.now } }]
  })
  return appendedEntries(sql, {
    entries: sql`
      SELECT entry.*
      FROM ${auditRowsTable(
        sql,
        entries.map(({ row }) => row),
        entries.map(({ op }) => op)
      )}
        JOIN numbered a ON a.op = entry.number
    `
  })
}

/** On a cluster: counts an approval that the transaction has closed. */
export const countTransition = (sql: SqlClient.SqlClient, org_id: OrgId, approval_id: ApprovalId) => sql`
  WITH transitioned AS MATERIALIZED (
    SELECT ${sql.literal(countedApprovalColumns("a"))}
    FROM approvals a
    WHERE a.org_id = ${org_id}
      AND a.approval_id = ${approval_id}
  ), ${approvalCounts(sql, "transitioned", 1)}
  SELECT 1
`
