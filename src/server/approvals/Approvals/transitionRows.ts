/** Approvals that move, many at a time: those that are due, those of a session that ends, and where they have moved to. */
import { Array as Arr, DateTime, Effect } from "effect"
import type { SqlClient } from "effect/sql"
import { nextTransitionAt } from "../../../domain/approvals/ApprovalState.ts"
import type { ApprovalId, OrgId, SessionId } from "../../../domain/Ids.ts"
import { type Timestamp, toDate } from "../../../domain/Time.ts"
import { boolArray, textArray, timestamptzArray } from "../../store/pgArrays.ts"
import { ApprovalRow, stateOf } from "./rows.ts"

/** The columns of an approval that may move, with the due time and without the arguments: what a move writes or tells has none. */
const movingColumns = [
  ...Object.keys(ApprovalRow.fields).filter((column) => column !== "arguments"),
  "next_due_at"
]
  .map((column) => `approvals.${column}`)
  .join(", ")

/** A column as the client reads it. */
type Read<A> = A extends Timestamp ? Date : A

/** A row of `movingColumns` as the client reads it. */
type MovingRecord = { readonly [K in Exclude<keyof ApprovalRow, "arguments">]: Read<ApprovalRow[K]> } & {
  readonly next_due_at: Date
}

/** An approval that may move, without its arguments, and when it was due. */
export interface DueApprovalRow extends ApprovalRow {
  readonly next_due_at: Timestamp
}

const utc = (at: Date): Timestamp => DateTime.makeUnsafe(at)
const utcMaybe = (at: Date | null): Timestamp | null => (at === null ? null : utc(at))

/** By hand: ten thousand rows may come in one second, and a schema would take a fifth of the time that moving them takes. */
const toMoving = (row: MovingRecord): DueApprovalRow => ({
  ...row,
  arguments: null,
  requested_at: utc(row.requested_at),
  review_deadline_at: utc(row.review_deadline_at),
  escalation_deadline_at: utcMaybe(row.escalation_deadline_at),
  expires_at: utc(row.expires_at),
  escalated_at: utcMaybe(row.escalated_at),
  decided_at: utcMaybe(row.decided_at),
  next_due_at: utc(row.next_due_at)
})

/**
 * What still waits in a session after an approval, oldest first, `limit` at most. The caller holds the session's row, so that nothing is added
 * meanwhile.
 */
export const lockPendingApprovals = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  session_id: SessionId,
  after: ApprovalId | "",
  limit: number
) =>
  Effect.map(
    sql<MovingRecord>`
      SELECT ${sql.literal(movingColumns)}
      FROM approvals
      WHERE org_id = ${org_id}
        AND session_id = ${session_id}
        AND approval_id > ${after}
        AND status = 'pending'
      ORDER BY approval_id
      LIMIT ${limit}
      FOR NO KEY UPDATE
    `,
    Arr.map(toMoving)
  )

/**
 * Writes where approvals have moved. The caller holds their sessions' rows, so nobody else moves them meanwhile. What an approval
 * asks for and the terms it was granted never change.
 */
export const updateApprovals = (sql: SqlClient.SqlClient, rows: Arr.NonEmptyReadonlyArray<ApprovalRow>) =>
  sql`
    UPDATE approvals
    SET
      status = moved.status,
      stage = moved.stage,
      expires_at = moved.expires_at,
      expiring_notified = moved.expiring_notified,
      escalated_at = moved.escalated_at,
      outcome = moved.outcome,
      decision_source = moved.decision_source,
      decided_at = moved.decided_at,
      decided_by_id = moved.decided_by_id,
      decided_by_name = moved.decided_by_name,
      comment = moved.comment,
      next_due_at = moved.next_due_at
    FROM unnest(
      ${textArray(rows.map((row) => row.org_id))}::text[],
      ${textArray(rows.map((row) => row.approval_id))}::text[],
      ${textArray(rows.map((row) => row.status))}::text[],
      ${textArray(rows.map((row) => row.stage))}::text[],
      ${timestamptzArray(rows.map((row) => row.expires_at))}::timestamptz[],
      ${boolArray(rows.map((row) => row.expiring_notified))}::boolean[],
      ${timestamptzArray(rows.map((row) => row.escalated_at))}::timestamptz[],
      ${textArray(rows.map((row) => row.outcome))}::text[],
      ${textArray(rows.map((row) => row.decision_source))}::text[],
      ${timestamptzArray(rows.map((row) => row.decided_at))}::timestamptz[],
      ${textArray(rows.map((row) => row.decided_by_id))}::text[],
      ${textArray(rows.map((row) => row.decided_by_name))}::text[],
      ${textArray(rows.map((row) => row.comment))}::text[],
      ${timestamptzArray(rows.map((row) => nextTransitionAt(stateOf(row))))}::timestamptz[]
    ) AS moved (
      org_id, approval_id, status, stage, expires_at, expiring_notified, escalated_at, outcome, decision_source, decided_at,
      decided_by_id, decided_by_name, comment, next_due_at
    )
    WHERE approvals.org_id = moved.org_id
      AND approvals.approval_id = moved.approval_id
  `

/** Where a claim of due approvals ended, and the next one goes on. */
export interface DueCursor {
  readonly next_due_at: Timestamp
  readonly approval_id: string
}

/** Before everything that is due. */
export const firstDueCursor: DueCursor = { next_due_at: DateTime.makeUnsafe(0), approval_id: "" }

/**
 * Approvals that are due, the longest first, with their sessions' rows and their own held to the end of the transaction. Those that
 * somebody else holds are left out: whoever moves them looks at the time too, or the next round does.
 */
export const lockDueApprovals = (sql: SqlClient.SqlClient, now: Timestamp, after: DueCursor, limit: number) =>
  Effect.map(
    sql<MovingRecord>`
      SELECT ${sql.literal(movingColumns)}
      FROM approvals
        JOIN agent_sessions USING (org_id, session_id)
      WHERE approvals.next_due_at <= ${toDate(now)}
        AND (approvals.next_due_at, approvals.approval_id) > (${toDate(after.next_due_at)}, ${after.approval_id})
      ORDER BY approvals.next_due_at, approvals.approval_id
      LIMIT ${limit}
      FOR NO KEY UPDATE OF agent_sessions, approvals SKIP LOCKED
    `,
    Arr.map(toMoving)
  )
