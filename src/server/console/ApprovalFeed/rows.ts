import { DateTime, Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { InboxApproval, type InboxLine, MAX_COMPARED_BYTES } from "../../../api/Console.ts"
import { describeMetadata } from "../../../domain/approvals/describeMetadata.ts"
import { ApprovalId, KeyId, OrgId } from "../../../domain/Ids.ts"
import { JsonValue } from "../../../domain/json/JsonValue.ts"
import { type Timestamp, toDate } from "../../../domain/Time.ts"
import { approvalColumnsWithoutArguments, ApprovalRow, toApproval } from "../../approvals/approvalRows.ts"
import { float8Array, textArray } from "../../store/pgArrays.ts"
import { rowsOf } from "../../store/rows.ts"
import type { PendingSession } from "./SignalBuffer.ts"

/** Older events are not published. It bounds the read of a session that has no read position yet. */
const MAX_EVENT_AGE = { seconds: 60 }

/** The most events of one session that one read scans. */
const MAX_EVENTS_PER_SESSION = 1_000

/** Larger metadata of sessions is not read for lists, in bytes as stored. */
const MAX_LINE_METADATA = 2_048

const lineFields = {
  rule_summary: Schema.NullOr(Schema.String),
  agent_summary: Schema.NullOr(Schema.String),
  arguments_line: Schema.NullOr(Schema.String),
  requested_by_id: KeyId,
  requested_by_name: Schema.NullOr(Schema.String),
  self_approval: Schema.Boolean,
  metadata: Schema.NullOr(Schema.Record(Schema.String, JsonValue)),
  newest_question: Schema.Int,
  newest_answer: Schema.Int
}

/** The columns of a line besides the approval's, and the tables that have them. */
const lineColumns = `
  api_keys.name AS requested_by_name,
  approvals.newest_question,
  approvals.newest_answer,
  CASE WHEN pg_column_size(agent_sessions.metadata) <= ${MAX_LINE_METADATA} THEN agent_sessions.metadata END AS metadata`
const lineTables = `
  LEFT JOIN api_keys ON api_keys.org_id = approvals.org_id
    AND api_keys.key_id = approvals.requested_by_id
  LEFT JOIN agent_sessions ON agent_sessions.org_id = approvals.org_id
    AND agent_sessions.session_id = approvals.session_id`

type LineRow = Schema.Struct.Type<typeof lineFields>

const toLine = (row: LineRow, canReadSessions: boolean): InboxLine => ({
  rule_summary: row.rule_summary,
  agent_summary: row.agent_summary,
  arguments: row.arguments_line,
  requested_by: { id: row.requested_by_id, name: row.requested_by_name ?? row.requested_by_id },
  self_approval: row.self_approval,
  about: canReadSessions && row.metadata !== null ? describeMetadata(row.metadata) : null,
  newest_question: row.newest_question,
  newest_answer: row.newest_answer
})

const listedRows = rowsOf(Schema.Struct({ ...ApprovalRow.fields, ...lineFields }))

const toListed = (row: ApprovalRow & LineRow, canReadSessions: boolean): InboxApproval => {
  const { agent_summary: _agent, rule_summary: _rule, ...snapshot } = toApproval(row)
  return { ...snapshot, line: toLine(row, canReadSessions) }
}

/** Pending approvals sorted by deadline, after the keyset cursor of a deadline and an id; without arguments. */
export const pendingByDeadline = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  limit: number,
  after: Timestamp | undefined,
  after_id: ApprovalId | undefined,
  canReadSessions: boolean
) {
  const rows = yield* listedRows.all(pendingStatement(sql, org_id, limit, after, after_id))
  return rows.map((row) => toListed(row, canReadSessions))
})

/** These approvals with their lines, without arguments, in this order. Deleted ones are left out. */
export const listedApprovals = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  ids: ReadonlyArray<ApprovalId>,
  canReadSessions: boolean
) {
  const rows = yield* listedRows.all(sql`
    SELECT ${sql.literal(approvalColumnsWithoutArguments)}, ${sql.literal(lineColumns)}
    FROM approvals ${sql.literal(lineTables)}
    WHERE approvals.org_id = ${org_id}
      AND approvals.approval_id = ANY(${textArray(ids)}::text[])
  `)
  const found = new Map(rows.map((row) => [row.approval_id, toListed(row, canReadSessions)]))
  return ids.flatMap((id) => found.get(id) ?? [])
})

/** Reads one page by the index of pending approvals. */
export const pendingStatement = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  limit: number,
  after: Timestamp | undefined,
  after_id: ApprovalId | undefined
) => sql`
  SELECT ${sql.literal(approvalColumnsWithoutArguments)}, ${sql.literal(lineColumns)}
  FROM (
    SELECT *
    FROM approvals
    WHERE org_id = ${org_id}
      AND status = 'pending'
      ${
        after === undefined
          ? sql.literal("")
          : sql`AND (expires_at, approval_id) > (${toDate(after)}::timestamptz, ${after_id ?? ""}::text COLLATE "C")`
      }
    ORDER BY expires_at, approval_id
    LIMIT ${limit}
  ) AS approvals ${sql.literal(lineTables)}
  ORDER BY approvals.expires_at, approvals.approval_id
`

const comparedRows = rowsOf(
  Schema.Struct({
    approval_id: ApprovalId,
    requested_by_id: KeyId,
    requested_by_name: Schema.NullOr(Schema.String),
    self_approval: Schema.Boolean,
    arguments_bytes: Schema.Int,
    arguments: Schema.NullOr(Schema.String)
  })
)

/** The compared parts of these approvals, in this order; larger arguments than `MAX_COMPARED_BYTES` are not read. */
export const comparedApprovals = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  ids: ReadonlyArray<ApprovalId>
) {
  const rows = yield* comparedRows.all(sql`
    SELECT
      approvals.approval_id,
      approvals.requested_by_id,
      api_keys.name AS requested_by_name,
      approvals.self_approval,
      approvals.arguments_bytes,
      CASE WHEN approvals.arguments_bytes <= ${MAX_COMPARED_BYTES} THEN approvals.arguments::text END AS arguments
    FROM approvals
      LEFT JOIN api_keys ON api_keys.org_id = approvals.org_id
        AND api_keys.key_id = approvals.requested_by_id
    WHERE approvals.org_id = ${org_id}
      AND approvals.approval_id = ANY(${textArray(ids)}::text[])
  `)
  const found = new Map(rows.map((row) => [row.approval_id, row]))
  return ids.flatMap((id) => found.get(id) ?? [])
})

const ChangedRow = Schema.Struct({
  org_id: OrgId,
  approval_id: ApprovalId,
  /** Null: the newest event of the approval is a message, which has no snapshot. */
  approval: Schema.NullOr(Schema.String),
  ...lineFields
})
const changedRows = rowsOf(ChangedRow)

/** The JSON of a changed approval with its line. `snapshot`: that of its newest event. */
export const changedJson = (
  snapshot: string,
  row: typeof ChangedRow.Type,
  canReadSessions: boolean
): string => `${snapshot.slice(0, -1)},"line":${JSON.stringify(toLine(row, canReadSessions))}}`

const encodeListed = Schema.encodeSync(Schema.fromJsonString(Schema.toCodecJson(InboxApproval)))

/** The JSON of approvals in an organization, with their lines, by ID. */
export const listedJson = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  ids: ReadonlyArray<ApprovalId>,
  canReadSessions: boolean
) {
  const listed = ids.length === 0 ? [] : yield* listedApprovals(sql, org_id, ids, canReadSessions)
  return listed.map((approval) => encodeListed(approval))
})

/**
 * The approvals that changed in these sessions or have a new message, each with the JSON of its newest event's snapshot. One statement reads all sessions; sessions of
 * other organizations are skipped.
 */
export const changedApprovals = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  organizations: ReadonlyArray<OrgId>,
  sessions: ReadonlyArray<PendingSession>,
  now: Timestamp
) {
  const rows = yield* changedRows.all(sql`
    SELECT
      event.org_id,
      approvals.approval_id,
      (event.data->'approval')::text AS approval,
      approvals.rule_summary,
      approvals.agent_summary,
      approvals.arguments_line,
      approvals.requested_by_id,
      approvals.self_approval,
      ${sql.literal(lineColumns)}
    FROM unnest(
      ${textArray(sessions.map(({ session_id }) => session_id))},
      ${float8Array(sessions.map(({ after, newest }) => Math.max(after, newest - MAX_EVENTS_PER_SESSION)))}
    ) AS pending (session_id, after)
      JOIN session_events AS event ON event.org_id = ANY(${textArray(organizations)})
        AND event.session_id = pending.session_id
        AND event.number > pending.after::bigint
      JOIN approvals ON approvals.org_id = event.org_id
        AND approvals.approval_id = coalesce(event.data->'approval'->>'approval_id', event.data->>'approval_id')
      ${sql.literal(lineTables)}
    WHERE event.type LIKE 'approval:%'
      AND event.occurred_at > ${toDate(DateTime.subtract(now, MAX_EVENT_AGE))}::timestamptz
    ORDER BY event.session_id, event.number
  `)
  return [...new Map(rows.map((row) => [row.approval_id, row])).values()]
})
