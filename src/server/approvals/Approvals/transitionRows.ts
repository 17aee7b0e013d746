/** Statements for transitions of many approvals at a time: due approvals, pending approvals of a session, and their new states. */
import { Array as Arr, DateTime, Effect } from "effect"
import type { SqlClient, Statement } from "effect/sql"
import { lockOnNode } from "../../store/Cluster.ts"
import { nextTransitionAt } from "../../../domain/approvals/ApprovalState.ts"
import type { ApprovalId, OrgId, SessionId } from "../../../domain/Ids.ts"
import { type Timestamp, toDate } from "../../../domain/Time.ts"
import { onlyOrganization, sameOrganization } from "../../store/onlyOrganization.ts"
import { boolArray, int4Array, textArray, timestamptzArray } from "../../store/pgArrays.ts"
import { approvalCounts, countedApprovalColumns } from "../approvalCounts.ts"
import { ApprovalRow, stateOf, withoutProposal } from "../approvalRows.ts"

/** No transition writes or sends the arguments, or what tells of them. */
const withoutContent = { arguments: null, rule_summary: null, agent_summary: null, arguments_line: null }

/** Columns that are not read. A pending approval has no proposal. */
type UnreadColumn = keyof typeof withoutContent | keyof typeof withoutProposal

/** The columns of `DueApprovalRow`. */
const dueApprovalColumns = [
  ...Object.keys(ApprovalRow.fields).filter(
    (column) => !(column in withoutContent) && !(column in withoutProposal)
  ),
  "next_due_at"
]
  .map((column) => `approvals.${column}`)
  .join(", ")

/** A column as the SQL client returns it. */
type ColumnValue<A> = A extends Timestamp ? Date : A

/** A row of `dueApprovalColumns` as the SQL client returns it. */
type RawRow = { readonly [K in Exclude<keyof ApprovalRow, UnreadColumn>]: ColumnValue<ApprovalRow[K]> } & {
  readonly next_due_at: Date
}

/** A pending approval without its arguments, and the time of its next transition. */
export interface DueApprovalRow extends ApprovalRow {
  readonly next_due_at: Timestamp
}

const utc = (at: Date): Timestamp => DateTime.makeUnsafe(at)
const utcOrNull = (at: Date | null): Timestamp | null => (at === null ? null : utc(at))

/** Decodes without a schema: up to ten thousand rows come in a second, and a schema would add a fifth to the time of their transitions. */
const decodeRow = (row: RawRow): DueApprovalRow => ({
  ...row,
  ...withoutProposal,
  ...withoutContent,
  requested_at: utc(row.requested_at),
  review_deadline_at: utc(row.review_deadline_at),
  escalation_deadline_at: utcOrNull(row.escalation_deadline_at),
  expires_at: utc(row.expires_at),
  escalated_at: utcOrNull(row.escalated_at),
  decided_at: utcOrNull(row.decided_at),
  next_due_at: utc(row.next_due_at)
})

/**
 * Locks and returns a session's pending approvals after the approval `after`, oldest first, at most `limit`. The caller has locked the
 * session's row, so that no approval is added meanwhile.
 */
export const lockPendingApprovals = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  session_id: SessionId,
  after: ApprovalId | "",
  limit: number
) =>
  Effect.map(
    sql<RawRow>`
      SELECT ${sql.literal(dueApprovalColumns)}
      FROM approvals
      WHERE org_id = ${org_id}
        AND session_id = ${session_id}
        AND approval_id > ${after}
        AND status = 'pending'
      ORDER BY approval_id
      LIMIT ${limit}
      FOR NO KEY UPDATE
    `,
    Arr.map(decodeRow)
  )

/** The columns that transitions change, in the order of `stateArrays`. */
export const stateColumns = [
  "status",
  "stage",
  "expires_at",
  "expiring_notified",
  "escalated_at",
  "votes",
  "approvals_given",
  "outcome",
  "decision_source",
  "decided_at",
  "decided_by_id",
  "decided_by_name",
  "comment",
  "changes_requested",
  "next_due_at"
]

/** Assigns these columns from a table of new states, for `UPDATE … SET`. */
export const assignState = (sql: SqlClient.SqlClient, source: string): Statement.Fragment =>
  sql.literal(
    stateColumns
      .map((column) => `${column} = ${source}.${column}${column === "votes" ? "::json" : ""}`)
      .join(", ")
  )

/** The new states of approvals as arrays, one for each of these columns, for `unnest`. */
export const stateArrays = (
  sql: SqlClient.SqlClient,
  rows: ReadonlyArray<ApprovalRow>
): Statement.Fragment => sql`
    ${textArray(rows.map((row) => row.status))}::text[],
    ${textArray(rows.map((row) => row.stage))}::text[],
    ${timestamptzArray(rows.map((row) => row.expires_at))}::timestamptz[],
    ${boolArray(rows.map((row) => row.expiring_notified))}::boolean[],
    ${timestamptzArray(rows.map((row) => row.escalated_at))}::timestamptz[],
    ${textArray(rows.map(({ votes }) => (votes === null ? null : JSON.stringify(votes))))}::text[],
    ${int4Array(rows.map(({ votes }) => votes?.length ?? 0))}::int[],
    ${textArray(rows.map((row) => row.outcome))}::text[],
    ${textArray(rows.map((row) => row.decision_source))}::text[],
    ${timestamptzArray(rows.map((row) => row.decided_at))}::timestamptz[],
    ${textArray(rows.map((row) => row.decided_by_id))}::text[],
    ${textArray(rows.map((row) => row.decided_by_name))}::text[],
    ${textArray(rows.map((row) => row.comment))}::text[],
    ${boolArray(rows.map((row) => row.changes_requested))}::boolean[],
    ${timestamptzArray(rows.map((row) => nextTransitionAt(stateOf(row))))}::timestamptz[]
  `

/**
 * Writes the new states of pending approvals. The caller has locked their sessions' rows, so that there are no concurrent transitions. The
 * request and the terms of an approval never change.
 */
export const updateApprovals = (sql: SqlClient.SqlClient, rows: Arr.NonEmptyReadonlyArray<ApprovalRow>) =>
  sql`
    WITH transitioned AS (
      UPDATE approvals
      SET
        ${assignState(sql, "updated")}
      FROM unnest(
        ${textArray(rows.map((row) => row.org_id))}::text[],
        ${textArray(rows.map((row) => row.approval_id))}::text[],
        ${stateArrays(sql, rows)}
      ) AS updated (org_id, approval_id, ${sql.literal(stateColumns.join(", "))})
      WHERE approvals.org_id = updated.org_id
        AND approvals.approval_id = updated.approval_id
        AND approvals.status = 'pending'
        ${onlyOrganization(sql, "approvals.org_id", sameOrganization(rows))}
      RETURNING ${sql.literal(countedApprovalColumns("approvals"))}
    ), ${approvalCounts(sql, "transitioned", 1)}
    SELECT count(*)::int AS updated
    FROM transitioned
  `

/** Organizations with due approvals, at most `limit`. */
export const findDueOrganizations = (sql: SqlClient.SqlClient, now: Timestamp, limit: number) =>
  Effect.map(
    sql<{ readonly org_id: OrgId }>`
      SELECT DISTINCT org_id
      FROM approvals
      WHERE next_due_at <= ${toDate(now)}
      LIMIT ${limit}
    `,
    Arr.map(({ org_id }) => org_id)
  )

/** Keyset cursor over due approvals. */
export interface DueCursor {
  readonly next_due_at: Timestamp
  readonly approval_id: string
}

/** The cursor before all due approvals. */
export const firstDueCursor: DueCursor = { next_due_at: DateTime.makeUnsafe(0), approval_id: "" }

/**
 * Locks due approvals and their sessions until the transaction ends, and returns them, the longest due first. It skips rows that
 * another transaction has locked: every transition closes the windows that have passed, and the next run returns the rest. With `org_id`,
 * only approvals of this organization.
 */
export const lockDueApprovals = (
  sql: SqlClient.SqlClient,
  now: Timestamp,
  after: DueCursor,
  limit: number,
  org_id?: OrgId
) => {
  const due = sql<RawRow>`
      SELECT ${sql.literal(dueApprovalColumns)}
      FROM approvals
        JOIN agent_sessions USING (org_id, session_id)
      WHERE approvals.next_due_at <= ${toDate(now)}
        ${onlyOrganization(sql, "org_id", org_id)}
        AND (approvals.next_due_at, approvals.approval_id) > (${toDate(after.next_due_at)}, ${after.approval_id})
      ORDER BY approvals.next_due_at, approvals.approval_id
      LIMIT ${limit}
      FOR NO KEY UPDATE OF agent_sessions, approvals SKIP LOCKED
    `
  return Effect.map(org_id === undefined ? due : lockOnNode(sql, org_id, due), Arr.map(decodeRow))
}
