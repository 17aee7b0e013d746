import { Effect, Schema } from "effect"
import type { SqlClient, Statement } from "effect/sql"
import { lockOnNode } from "../store/Cluster.ts"
import { type OrgId, SessionId, TraceId } from "../../domain/Ids.ts"
import type { Timestamp } from "../../domain/Time.ts"
import { rowBytes, type StoredUsage } from "../identity/StoredUsage.ts"
import { rowsOf } from "../store/rows.ts"
import { rememberTraces } from "../telemetry/eraseSpans.ts"
import { approvalCounts, countedApprovalColumns } from "./approvalCounts.ts"

/** Rows of one table that one call deletes. */
const BATCH_ROWS = 2_000

/** The tables of a session: what `stepBytes` and `outcomeBytes` have counted for a row. The overhead of a step includes its events. */
const CHILDREN: ReadonlyArray<{ readonly table: string; readonly bytes: string }> = [
  { table: "session_events", bytes: "0" },
  { table: "coding_calls", bytes: "0" },
  { table: "coding_sessions", bytes: "0" },
  {
    table: "governed_steps",
    bytes: `${rowBytes.step} + coalesce(octet_length(arguments::text), 0) + coalesce(octet_length(outcome_result::text), 0)
      + coalesce(octet_length(outcome_error), 0) + CASE WHEN outcome_at IS NULL THEN 0 ELSE ${rowBytes.outcome} END`
  },
  { table: "approval_messages", bytes: `${rowBytes.message} + octet_length(text)` },
  { table: "approvals", bytes: "arguments_bytes" },
  { table: "reviewer_answers", bytes: `${rowBytes.reviewer_answer} + octet_length(reason)` },
  { table: "grants", bytes: `${rowBytes.grant} + octet_length(conditions::text)` },
  { table: "search_documents", bytes: "0" }
]

/**
 * The tables whose rows are counted per day, with the columns that these counts read. The counts of reviewer models always stay: without a
 * disagreement that is erased, a model would decide again.
 */
const COUNTS: Readonly<
  Record<
    string,
    { readonly columns: string; readonly subtract: (sql: SqlClient.SqlClient) => Statement.Fragment }
  >
> = {
  approvals: {
    columns: countedApprovalColumns(),
    subtract: (sql) => approvalCounts(sql, "deleted", -1)
  }
}

const sessionRows = rowsOf(Schema.Struct({ trace_id: TraceId, metadata_bytes: Schema.Int }))

/** How a session is deleted. */
export interface SessionDeletion {
  readonly usage: StoredUsage["Service"]
  readonly now: Timestamp
  /** Whether the approvals stay in the counts per day, which contain no personal data: retention keeps them, an erasure does not. */
  readonly keepsCounts: boolean
  /** Conditions that the session must still meet once it is locked; it is left alone otherwise. */
  readonly conditions?: ReadonlyArray<Statement.Fragment>
}

/**
 * Deletes a session with its steps, approvals, grants and events, in the caller's transaction. Returns whether it is gone: if it
 * has many rows, some are left for the next call. The session is locked first, so that no step is added meanwhile; once
 * it is gone, requests for it get 404.
 *
 * Webhook deliveries and emails about its approvals stay: they contain no arguments, and have a retention of their own.
 */
export const deleteSession = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  session_id: SessionId,
  { conditions = [], keepsCounts, now, usage }: SessionDeletion
) {
  const session = yield* lockOnNode(
    sql,
    org_id,
    sessionRows.first(sql`
    SELECT trace_id, octet_length(metadata::text) AS metadata_bytes
    FROM agent_sessions AS session
    WHERE ${sql.and([sql`org_id = ${org_id}`, sql`session_id = ${session_id}`, ...conditions])}
    FOR UPDATE
  `)
  )
  if (session === undefined) return { isGone: true, sessions: 0 }
  let isGone = true
  let freed = 0
  for (const { bytes, table } of CHILDREN) {
    const counts = keepsCounts ? undefined : COUNTS[table]
    const [deleted] = yield* sql<{ readonly rows: number; readonly bytes: number }>`
      WITH deleted AS (
        DELETE FROM ${sql(table)}
        WHERE org_id = ${org_id}
          AND ctid = ANY(ARRAY(
          SELECT ctid
          FROM ${sql(table)}
          WHERE org_id = ${org_id}
            AND session_id = ${session_id}
          LIMIT ${BATCH_ROWS}
        ))
        RETURNING ${sql.literal(`${bytes} AS bytes${counts === undefined ? "" : `, ${counts.columns}`}`)}
      )
      ${counts === undefined ? sql.literal("") : sql`, ${counts.subtract(sql)}`}
      SELECT count(*)::int AS rows, coalesce(sum(bytes), 0)::float8 AS bytes
      FROM deleted
    `
    if (deleted === undefined) continue
    if (deleted.rows === BATCH_ROWS) isGone = false
    freed += deleted.bytes
  }
  if (isGone) {
    yield* sql`
      DELETE FROM agent_sessions
      WHERE org_id = ${org_id}
        AND session_id = ${session_id}
    `
    freed += rowBytes.session + session.metadata_bytes
  }
  yield* rememberTraces(sql, org_id, [session.trace_id], now)
  yield* sql.afterCommit(Effect.sync(() => usage.add(org_id, { bytes: -freed })))
  return { isGone, sessions: isGone ? 1 : 0 }
})

/** Sessions that one read returns. */
const SCANNED_SESSIONS = 2_000

const scannedRows = rowsOf(Schema.Struct({ session_id: SessionId, matches: Schema.Boolean }))

/**
 * Finds the next session of the organization, after `cursor`, that meets a condition on its row, among a limited number.
 * `cursor` is where the next call continues; null: no session is left.
 */
export const findSessionAfter = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  cursor: string | null,
  condition: Statement.Fragment
) {
  const scanned = yield* scannedRows.all(sql`
    SELECT session_id, ${condition} AS matches
    FROM (
      SELECT session_id, metadata
      FROM agent_sessions
      WHERE org_id = ${org_id}
        AND session_id > ${cursor ?? ""}
      ORDER BY session_id
      LIMIT ${SCANNED_SESSIONS}
    ) AS scanned
    ORDER BY session_id
  `)
  const match = scanned.find(({ matches }) => matches)
  const last = scanned.at(-1)?.session_id ?? null
  return {
    session_id: match?.session_id,
    cursor: match?.session_id ?? (scanned.length < SCANNED_SESSIONS ? null : last)
  }
})
