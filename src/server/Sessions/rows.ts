import { Effect, Option, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import type { PageRequest } from "../../api/Pagination.ts"
import type { AgentSession } from "../../domain/AgentSession.ts"
import { KeyId, type OrgId, SessionId, TaskId, TraceId } from "../../domain/Ids.ts"
import { TimestampFromDate, toDate } from "../../domain/Time.ts"
import { olderThan, rowsFor } from "../Page.ts"

const SessionRow = Schema.Struct({
  session_id: SessionId,
  task_id: Schema.NullOr(TaskId),
  trace_id: TraceId,
  metadata: Schema.Record(Schema.String, Schema.Json),
  created_at: TimestampFromDate,
  created_by_id: KeyId,
  created_by_name: Schema.String,
  closed_at: Schema.NullOr(TimestampFromDate)
})

const columns = Object.keys(SessionRow.fields).join(", ")

const decodeSessions = Schema.decodeUnknownEffect(Schema.Array(SessionRow))

const toSession = (row: typeof SessionRow.Type): AgentSession => ({
  session_id: row.session_id,
  task_id: row.task_id,
  trace_id: row.trace_id,
  metadata: row.metadata,
  status: row.closed_at === null ? "open" : "closed",
  created_at: row.created_at,
  created_by: { id: row.created_by_id, name: row.created_by_name },
  closed_at: row.closed_at
})

/** Writes a new session. */
export const insertSession = (sql: SqlClient.SqlClient, org_id: OrgId, session: AgentSession) =>
  sql`
    INSERT INTO agent_sessions
      (org_id, session_id, task_id, trace_id, metadata, created_at, created_by_id, created_by_name)
    VALUES (
      ${org_id}, ${session.session_id}, ${session.task_id}, ${session.trace_id},
      ${JSON.stringify(session.metadata)}, ${toDate(session.created_at)}, ${session.created_by.id}, ${session.created_by.name}
    )
  `

/** The session of this id, if the organization has one. */
export const findSession = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  session_id: SessionId
) {
  const rows = yield* sql`
    SELECT ${sql.literal(columns)}
    FROM agent_sessions
    WHERE org_id = ${org_id}
      AND session_id = ${session_id}
  `
  return Option.map(Option.fromUndefinedOr((yield* decodeSessions(rows))[0]), toSession)
})

/** The organization's sessions, newest first, for `pageOf`. */
export const listSessions = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  request: PageRequest<SessionId>
) {
  const rows = yield* sql`
    SELECT ${sql.literal(columns)}
    FROM agent_sessions
    WHERE org_id = ${org_id}
      ${olderThan(sql, "session_id", request.cursor)}
    ORDER BY session_id DESC
    LIMIT ${rowsFor(request)}
  `
  return (yield* decodeSessions(rows)).map(toSession)
})

/**
 * Holds a session's row to the end of the transaction: one step of a session is decided at a time, and its events are numbered there.
 * Of the session only what every step asks.
 */
export const holdSession = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  session_id: SessionId
) {
  const rows = yield* sql`
    SELECT task_id, closed_at IS NOT NULL AS closed
    FROM agent_sessions
    WHERE org_id = ${org_id}
      AND session_id = ${session_id}
    FOR NO KEY UPDATE
  `
  return Option.fromUndefinedOr((yield* decodeHeld(rows))[0])
})

const decodeHeld = Schema.decodeUnknownEffect(
  Schema.Array(Schema.Struct({ task_id: Schema.NullOr(TaskId), closed: Schema.Boolean }))
)
