import { Effect, Option, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import type { AgentSessionFilter } from "../../../api/AgentSessions.ts"
import type { PageRequest } from "../../../api/Pagination.ts"
import type { AgentSession } from "../../../domain/approvals/AgentSession.ts"
import { KeyId, type OrgId, SessionId, TaskId, TraceId } from "../../../domain/Ids.ts"
import { JsonValue } from "../../../domain/json/JsonValue.ts"
import { TimestampFromDate } from "../../../domain/Time.ts"
import { secretsVersion } from "../../secrets/secretsVersion.ts"
import { boolArray, textArray, timestamptzArray } from "../../store/pgArrays.ts"
import { lockOnNode } from "../../store/Cluster.ts"
import { findMatches } from "../../store/findMatches.ts"
import {
  type Page,
  pageWithinBytes,
  rowLimit,
  sqlDirection,
  toPageWithinBytes
} from "../../store/Pagination.ts"
import { rowsOf } from "../../store/rows.ts"

const SessionRow = Schema.Struct({
  session_id: SessionId,
  task_id: Schema.NullOr(TaskId),
  trace_id: TraceId,
  metadata: Schema.Record(Schema.String, JsonValue),
  created_at: TimestampFromDate,
  created_by_id: KeyId,
  created_by_name: Schema.String,
  shared: Schema.Boolean,
  closed_at: Schema.NullOr(TimestampFromDate)
})

const columns = Object.keys(SessionRow.fields).join(", ")

const sessionRows = rowsOf(SessionRow)

const toSession = (row: typeof SessionRow.Type): AgentSession => ({
  session_id: row.session_id,
  task_id: row.task_id,
  trace_id: row.trace_id,
  metadata: row.metadata,
  status: row.closed_at === null ? "open" : "closed",
  created_at: row.created_at,
  created_by: { id: row.created_by_id, name: row.created_by_name },
  shared: row.shared,
  closed_at: row.closed_at
})

/** A new session, its metadata as JSON text, and the version of the secrets with which the metadata was compared. */
export interface NewSessionRow {
  readonly org_id: OrgId
  readonly session: AgentSession
  readonly metadata: string
  readonly secrets_version: string
}

/**
 * Inserts sessions in one statement, except those whose organization's secrets have another version. Returns for each whether it was
 * inserted. `org_id`: the only organization, on a cluster.
 */
export const insertSessions = (
  sql: SqlClient.SqlClient,
  rows: ReadonlyArray<NewSessionRow>,
  org_id: OrgId | undefined
) =>
  Effect.map(
    sql<{ readonly session_id: string }>`
      INSERT INTO agent_sessions (
        org_id, session_id, task_id, trace_id, metadata, created_at, created_by_id, created_by_name, shared
      )
      SELECT org_id, session_id, task_id, trace_id, metadata::json, created_at, created_by_id, created_by_name, shared
      FROM unnest(
        ${textArray(rows.map((row) => row.org_id))}::text[],
        ${textArray(rows.map(({ session }) => session.session_id))}::text[],
        ${textArray(rows.map(({ session }) => session.task_id))}::text[],
        ${textArray(rows.map(({ session }) => session.trace_id))}::text[],
        ${textArray(rows.map(({ metadata }) => metadata))}::text[],
        ${timestamptzArray(rows.map(({ session }) => session.created_at))}::timestamptz[],
        ${textArray(rows.map(({ session }) => session.created_by.id))}::text[],
        ${textArray(rows.map(({ session }) => session.created_by.name))}::text[],
        ${boolArray(rows.map(({ session }) => session.shared))}::boolean[],
        ${textArray(rows.map(({ secrets_version }) => secrets_version))}::text[]
      ) AS r (
        org_id, session_id, task_id, trace_id, metadata, created_at, created_by_id, created_by_name, shared, secrets_version
      )
      WHERE secrets_version = ${secretsVersion(sql, org_id ?? sql.literal("r.org_id"))}
      RETURNING session_id
    `,
    (inserted) => {
      const ids = new Set(inserted.map(({ session_id }) => session_id))
      return rows.map(({ session }) => ids.has(session.session_id))
    }
  )

/** The number of the organization's open sessions, counted up to `limit`. */
export const countOpenSessions = (sql: SqlClient.SqlClient, org_id: OrgId, limit: number) =>
  Effect.map(
    sql<{ readonly count: number }>`
      SELECT count(*)::int AS count
      FROM (
        SELECT 1
        FROM agent_sessions
        WHERE org_id = ${org_id}
          AND closed_at IS NULL
        LIMIT ${limit}
      ) AS open_sessions
    `,
    (rows) => rows[0]?.count ?? 0
  )

/** The organization's session with this id. */
export const findSession = (sql: SqlClient.SqlClient, org_id: OrgId, session_id: SessionId) =>
  sessionRows
    .first(
      sql`
        SELECT ${sql.literal(columns)}
        FROM agent_sessions
        WHERE org_id = ${org_id}
          AND session_id = ${session_id}
      `
    )
    .pipe(Effect.map((row) => Option.map(Option.fromUndefinedOr(row), toSession)))

/** Reads a page of the organization's sessions, newest first. A page of sessions with large metadata has fewer than `limit`. */
export const listSessions = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  request: PageRequest<SessionId> & AgentSessionFilter
) {
  const { order, text } = request
  const where = sql`org_id = ${org_id} ${sql.literal(statusConditions[request.status ?? "any"])}`
  const found =
    text === undefined
      ? undefined
      : yield* findMatches(sql, {
          table: "agent_sessions",
          id: "session_id",
          text: SEARCHED_TEXT,
          where,
          words: text,
          order,
          cursor: request.cursor,
          limit: rowLimit(request)
        })
  const { ctes, isOnPage } = pageWithinBytes(sql, {
    table: "agent_sessions",
    id: "session_id",
    bytes: "octet_length(metadata::text)",
    where:
      found === undefined
        ? where
        : sql`org_id = ${org_id} AND session_id = ANY(${textArray(found.ids)}::text[])`,
    request,
    order
  })
  const rows = yield* listedRows.all(sql`
    ${ctes}
    SELECT ${sql.literal(columns)}, found
    FROM sized
      JOIN agent_sessions USING (session_id)
    WHERE org_id = ${org_id}
      AND ${isOnPage}
    ORDER BY session_id ${sql.literal(sqlDirection(order))}
  `)
  const page: Page<AgentSession, SessionId> = toPageWithinBytes(rows, toSession, (row) => row.session_id)
  const horizon = found?.horizon ?? null
  return page.next_cursor !== null || horizon === null
    ? page
    : { items: page.items, next_cursor: SessionId.make(horizon, { disableChecks: true }) }
})

/** The searched text of a session: its agent, its id and the readable part of its metadata. */
const SEARCHED_TEXT = "concat_ws(' ', created_by_name, session_id, left(metadata::text, 4096))"

const statusConditions = {
  any: "",
  open: "AND closed_at IS NULL",
  closed: "AND closed_at IS NOT NULL"
} as const

const listedRows = rowsOf(Schema.Struct({ ...SessionRow.fields, found: Schema.Int }))

/**
 * Locks a session's row (FOR NO KEY UPDATE) until the transaction ends: the steps of a session are decided one at a time, and the row
 * numbers the session's events. Returns only the columns that steps need.
 */
export const lockSessionForUpdate = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  session_id: SessionId
) {
  const locked = yield* lockOnNode(
    sql,
    org_id,
    lockedRows.first(sql`
    SELECT task_id, closed_at IS NOT NULL AS closed, created_by_id, proposals_until, grants_until
    FROM agent_sessions
    WHERE org_id = ${org_id}
      AND session_id = ${session_id}
    FOR NO KEY UPDATE
  `)
  )
  return Option.fromUndefinedOr(locked)
})

const LockedSession = Schema.Struct({
  task_id: Schema.NullOr(TaskId),
  closed: Schema.Boolean,
  created_by_id: KeyId,
  /** When the last unused counter-proposal expires; null: there is none. */
  proposals_until: Schema.NullOr(TimestampFromDate),
  /** Until when it can have active grants; null: it has none. */
  grants_until: Schema.NullOr(TimestampFromDate)
})
export type LockedSession = typeof LockedSession.Type

const lockedRows = rowsOf(LockedSession)
