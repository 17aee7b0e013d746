import type { SqlClient } from "effect/sql"
import { nextTransitionAt } from "../../../domain/approvals/ApprovalState.ts"
import { boolArray, int4Array, textArray, timestamptzArray } from "../../store/pgArrays.ts"
import { stateOf } from "../approvalRows.ts"
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
              status = n.status,
              stage = n.stage,
              expires_at = n.expires_at,
              expiring_notified = n.expiring_notified,
              escalated_at = n.escalated_at,
              outcome = n.outcome,
              decision_source = n.decision_source,
              decided_at = n.decided_at,
              decided_by_id = n.decided_by_id,
              decided_by_name = n.decided_by_name,
              comment = n.comment,
              next_due_at = n.next_due_at
            FROM unnest(
              ${int4Array(ops.map(({ op }) => op))}::int[],
              ${textArray(to.map((row) => row.approval_id))}::text[],
              ${textArray(from.map((row) => row.status))}::text[],
              ${textArray(from.map((row) => row.stage))}::text[],
              ${timestamptzArray(from.map((row) => row.expires_at))}::timestamptz[],
              ${boolArray(from.map((row) => row.expiring_notified))}::boolean[],
              ${textArray(to.map((row) => row.status))}::text[],
              ${textArray(to.map((row) => row.stage))}::text[],
              ${timestamptzArray(to.map((row) => row.expires_at))}::timestamptz[],
              ${boolArray(to.map((row) => row.expiring_notified))}::boolean[],
              ${timestamptzArray(to.map((row) => row.escalated_at))}::timestamptz[],
              ${textArray(to.map((row) => row.outcome))}::text[],
              ${textArray(to.map((row) => row.decision_source))}::text[],
              ${timestamptzArray(to.map((row) => row.decided_at))}::timestamptz[],
              ${textArray(to.map((row) => row.decided_by_id))}::text[],
              ${textArray(to.map((row) => row.decided_by_name))}::text[],
              ${textArray(to.map((row) => row.comment))}::text[],
              ${timestamptzArray(to.map((row) => nextTransitionAt(stateOf(row))))}::timestamptz[]
            ) AS n (
              op, approval_id, old_status, old_stage, old_expires_at, old_expiring_notified, status, stage, expires_at,
              expiring_notified, escalated_at, outcome, decision_source, decided_at, decided_by_id, decided_by_name, comment, next_due_at
            )
              JOIN eligible e ON e.op = n.op
            WHERE a.org_id = e.org_id
              AND a.approval_id = n.approval_id
              AND a.status = n.old_status
              AND a.stage = n.old_stage
              -- A parameter has milliseconds; a row that something else has written may have microseconds.
              AND date_trunc('milliseconds', a.expires_at) = n.old_expires_at
              AND a.expiring_notified = n.old_expiring_notified
            RETURNING n.op
          )`
      ],
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
          )`
      ]
    }
  ]
}
