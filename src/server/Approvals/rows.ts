import { Array as Arr, DateTime, Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import {
  type Approval,
  ApprovalOutcome,
  ApprovalStage,
  ApprovalStatus,
  DecisionSource
} from "../../domain/Approval.ts"
import { type ApprovalState, nextDueAt } from "../../domain/ApprovalState.ts"
import { ApprovalId, KeyId, OrgId, SessionId, StepId, TaskId } from "../../domain/Ids.ts"
import { type Timestamp, TimestampFromDate, toDate } from "../../domain/Time.ts"
import { booleans, texts, times } from "../Delivery/Columns.ts"

/** An approval as the store holds it. */
export const ApprovalRow = Schema.Struct({
  org_id: OrgId,
  approval_id: ApprovalId,
  session_id: SessionId,
  step_id: StepId,
  task_id: Schema.NullOr(TaskId),
  tool: Schema.String,
  action_class: Schema.String,
  /** As JSON text; null where the agent gave no arguments at all, which is not the same as the text `null`. */
  arguments: Schema.NullOr(Schema.String),
  arguments_digest: Schema.String,
  status: ApprovalStatus,
  stage: ApprovalStage,
  requested_at: TimestampFromDate,
  requested_by_id: KeyId,
  review_deadline_at: TimestampFromDate,
  escalation_deadline_at: Schema.NullOr(TimestampFromDate),
  expires_at: TimestampFromDate,
  expiring_seconds: Schema.NullOr(Schema.Number),
  expiring_notified: Schema.Boolean,
  escalated_at: Schema.NullOr(TimestampFromDate),
  timeout_action: ApprovalOutcome,
  self_approval: Schema.Boolean,
  outcome: Schema.NullOr(ApprovalOutcome),
  decision_source: Schema.NullOr(DecisionSource),
  decided_at: Schema.NullOr(TimestampFromDate),
  decided_by_id: Schema.NullOr(KeyId),
  decided_by_name: Schema.NullOr(Schema.String),
  comment: Schema.NullOr(Schema.String)
})
export type ApprovalRow = typeof ApprovalRow.Type

/** The columns of `ApprovalRow`. Arguments are read as text: what the client parses can no longer tell `null` from absent. */
export const approvalColumns = Object.keys(ApprovalRow.fields)
  .map((column) =>
    column === "arguments" ? "approvals.arguments::text AS arguments" : `approvals.${column}`
  )
  .join(", ")

/** The same without the arguments, which can be 4 MiB each: for those that list many approvals at once. */
export const approvalColumnsWithoutArguments = Object.keys(ApprovalRow.fields)
  .map((column) => (column === "arguments" ? "NULL::text AS arguments" : `approvals.${column}`))
  .join(", ")

/** The same with the due time: for those that move many. What a move writes or tells has no arguments. */
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
export interface MovingRow extends ApprovalRow {
  readonly next_due_at: Timestamp
}

const utc = (at: Date): Timestamp => DateTime.makeUnsafe(at)
const utcMaybe = (at: Date | null): Timestamp | null => (at === null ? null : utc(at))

/** By hand: ten thousand rows may come in one second, and a schema would take a fifth of the time that moving them takes. */
const toMoving = (row: MovingRecord): MovingRow => ({
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

/** Rows of `approvalColumns`. They were checked when they came in; their shape is held to, their texts are not read again. */
export const decodeApprovals = Schema.decodeUnknownEffect(Schema.Array(ApprovalRow), { disableChecks: true })

/** An approval of the organization, if it is one. */
export const findApproval = (sql: SqlClient.SqlClient, org_id: OrgId, id: ApprovalId) =>
  sql`
    SELECT ${sql.literal(approvalColumns)}
    FROM approvals
    WHERE org_id = ${org_id}
      AND approval_id = ${id}
  `.pipe(
    Effect.flatMap(decodeApprovals),
    Effect.map((rows) => rows[0])
  )

/**
 * The approval, with its session's row and its own held to the end of the transaction: the session first, as everyone who moves
 * an approval does, since its events are numbered there.
 */
export const holdApproval = (sql: SqlClient.SqlClient, org_id: OrgId, id: ApprovalId) =>
  sql`
    SELECT ${sql.literal(approvalColumns)}
    FROM agent_sessions
      JOIN approvals USING (org_id, session_id)
    WHERE org_id = ${org_id}
      AND approvals.approval_id = ${id}
    FOR NO KEY UPDATE OF agent_sessions, approvals
  `.pipe(Effect.flatMap(decodeApprovals))

/**
 * What still waits in a session after an approval, oldest first, `limit` at most. The caller holds the session's row, so that nothing is added
 * meanwhile.
 */
export const pendingApprovals = (
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

/** The moving part of an approval. */
export const stateOf = (row: ApprovalRow): ApprovalState => ({
  status: row.status,
  stage: row.stage,
  requested_at: row.requested_at,
  requested_by: row.requested_by_id,
  review_deadline_at: row.review_deadline_at,
  escalation_deadline_at: row.escalation_deadline_at,
  expires_at: row.expires_at,
  expiring_seconds: row.expiring_seconds,
  expiring_notified: row.expiring_notified,
  escalated_at: row.escalated_at,
  timeout_action: row.timeout_action,
  self_approval: row.self_approval,
  outcome: row.outcome,
  decision_source: row.decision_source,
  decided_at: row.decided_at,
  decided_by:
    row.decided_by_id === null
      ? null
      : { id: row.decided_by_id, name: row.decided_by_name ?? row.decided_by_id },
  comment: row.comment
})

/** The row with another state. */
export const withState = (row: ApprovalRow, state: ApprovalState): ApprovalRow => ({
  ...row,
  status: state.status,
  stage: state.stage,
  expires_at: state.expires_at,
  expiring_notified: state.expiring_notified,
  escalated_at: state.escalated_at,
  outcome: state.outcome,
  decision_source: state.decision_source,
  decided_at: state.decided_at,
  decided_by_id: state.decided_by?.id ?? null,
  decided_by_name: state.decided_by?.name ?? null,
  comment: state.comment
})

const parseArguments = Schema.decodeUnknownSync(Schema.fromJsonString(Schema.Json))

/** An approval as it is shown. */
export const toApproval = (row: ApprovalRow): Approval => {
  const state = stateOf(row)
  return {
    approval_id: row.approval_id,
    session_id: row.session_id,
    step_id: row.step_id,
    task_id: row.task_id,
    tool: row.tool,
    action_class: row.action_class,
    ...(row.arguments === null ? {} : { arguments: parseArguments(row.arguments) }),
    arguments_digest: row.arguments_digest,
    status: state.status,
    stage: state.stage,
    requested_at: row.requested_at,
    review_deadline_at: state.review_deadline_at,
    escalation_deadline_at: state.escalation_deadline_at,
    expires_at: state.expires_at,
    escalated_at: state.escalated_at,
    timeout_action: state.timeout_action,
    outcome: state.outcome,
    decision_source: state.decision_source,
    decided_at: state.decided_at,
    decided_by: state.decided_by,
    comment: state.comment
  }
}

/** Writes a new approval. */
export const insertApproval = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, row: ApprovalRow) {
  const due = nextDueAt(stateOf(row))
  const values = yield* Schema.encodeEffect(ApprovalRow)(row)
  yield* sql`
    INSERT INTO approvals ${sql.insert({
      ...values,
      arguments_bytes: values.arguments === null ? 0 : Buffer.byteLength(values.arguments),
      next_due_at: due === null ? null : toDate(due)
    })}
  `
})

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
      ${texts(rows.map((row) => row.org_id))}::text[],
      ${texts(rows.map((row) => row.approval_id))}::text[],
      ${texts(rows.map((row) => row.status))}::text[],
      ${texts(rows.map((row) => row.stage))}::text[],
      ${times(rows.map((row) => row.expires_at))}::timestamptz[],
      ${booleans(rows.map((row) => row.expiring_notified))}::boolean[],
      ${times(rows.map((row) => row.escalated_at))}::timestamptz[],
      ${texts(rows.map((row) => row.outcome))}::text[],
      ${texts(rows.map((row) => row.decision_source))}::text[],
      ${times(rows.map((row) => row.decided_at))}::timestamptz[],
      ${texts(rows.map((row) => row.decided_by_id))}::text[],
      ${texts(rows.map((row) => row.decided_by_name))}::text[],
      ${texts(rows.map((row) => row.comment))}::text[],
      ${times(rows.map((row) => nextDueAt(stateOf(row))))}::timestamptz[]
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
export const dueFirst: DueCursor = { next_due_at: DateTime.makeUnsafe(0), approval_id: "" }

/**
 * Approvals that are due, the longest first, with their sessions' rows and their own held to the end of the transaction. Those that
 * somebody else holds are left out: whoever moves them looks at the time too, or the next round does.
 */
export const dueApprovals = (sql: SqlClient.SqlClient, now: Timestamp, after: DueCursor, limit: number) =>
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
