import { DateTime, Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { MAX_COMPARED_BYTES } from "../../../api/Console.ts"
import type { ApprovalSnapshot } from "../../../api/SessionStream.ts"
import { ApprovalId, KeyId, OrgId } from "../../../domain/Ids.ts"
import { type Timestamp, toDate } from "../../../domain/Time.ts"
import { approvalColumnsWithoutArguments, approvalRows, toApproval } from "../../approvals/approvalRows.ts"
import { float8Array, textArray } from "../../store/pgArrays.ts"
import { rowsOf } from "../../store/rows.ts"
import type { PendingSession } from "./SignalBuffer.ts"

/** Older events are not published. It bounds the read of a session that has no read position yet. */
const MAX_EVENT_AGE = { seconds: 60 }

/** The most events of one session that one read scans. */
const MAX_EVENTS_PER_SESSION = 1_000

/** Pending approvals sorted by deadline, after the keyset cursor of a deadline and an id; without arguments. */
export const pendingByDeadline = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  limit: number,
  after: Timestamp | undefined,
  after_id: ApprovalId | undefined
) {
  const rows = yield* approvalRows.all(sql`
    SELECT ${sql.literal(approvalColumnsWithoutArguments)}
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
  `)
  return rows.map((row): ApprovalSnapshot => toApproval(row))
})

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

/** What is compared of these approvals, in this order; larger arguments than `MAX_COMPARED_BYTES` are not read. */
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

const changedRows = rowsOf(Schema.Struct({ org_id: OrgId, approval_id: ApprovalId, approval: Schema.String }))

/**
 * The approvals that changed in these sessions, each with the JSON of its newest snapshot. One statement reads all sessions; sessions of
 * other organizations are skipped.
 */
export const changedApprovals = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  organizations: ReadonlyArray<OrgId>,
  sessions: ReadonlyArray<PendingSession>,
  now: Timestamp
) {
  const rows = yield* changedRows.all(sql`
    SELECT event.org_id, event.data->'approval'->>'approval_id' AS approval_id, (event.data->'approval')::text AS approval
    FROM unnest(
      ${textArray(sessions.map(({ session_id }) => session_id))},
      ${float8Array(sessions.map(({ after, newest }) => Math.max(after, newest - MAX_EVENTS_PER_SESSION)))}
    ) AS pending (session_id, after)
      JOIN session_events AS event ON event.org_id = ANY(${textArray(organizations)})
        AND event.session_id = pending.session_id
        AND event.number > pending.after::bigint
    WHERE event.type LIKE 'approval:%'
      AND event.occurred_at > ${toDate(DateTime.subtract(now, MAX_EVENT_AGE))}::timestamptz
    ORDER BY event.session_id, event.number
  `)
  return [...new Map(rows.map((row) => [row.approval_id, row])).values()]
})
