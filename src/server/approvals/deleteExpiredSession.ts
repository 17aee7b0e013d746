import { Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { lockOnNode } from "../store/Cluster.ts"
import { SessionId } from "../../domain/Ids.ts"
import { toDate } from "../../domain/Time.ts"
import type { StoredUsage } from "../identity/StoredUsage.ts"
import { rowsOf } from "../store/rows.ts"
import type { ExpiredDeletion, Expiry } from "../tasks/deleteExpired.ts"
import { deleteSession } from "./deleteSessions.ts"

/** Sessions that one transaction deletes. */
const MAX_SESSIONS = 20

const sessionRows = rowsOf(Schema.Struct({ session_id: SessionId }))

/**
 * Deletes the oldest expired sessions of an organization. The age of a session is that of its last event, or of itself
 * if it has none. One with a pending approval stays until that is decided or expires, and one with a
 * claimed step until its outcome is reported or unknown. Sessions are in the order of their
 * time in the primary key; older sessions that are still in use are few, because an organization has a limit of open
 * ones.
 */
export const deleteExpiredSession = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  usage: StoredUsage["Service"],
  { cutoff, now, org_id }: Expiry
) {
  const conditions = [
    sql`session.created_at < ${toDate(cutoff)}`,
    sql`coalesce(session.closed_at < ${toDate(cutoff)}, true)`,
    sql`NOT EXISTS (
      SELECT 1
      FROM approvals
      WHERE approvals.org_id = session.org_id
        AND approvals.session_id = session.session_id
        AND status = 'pending'
    )`,
    sql`NOT EXISTS (
      SELECT 1
      FROM governed_steps
      WHERE governed_steps.org_id = session.org_id
        AND governed_steps.session_id = session.session_id
        AND execution = 'executing'
    )`,
    sql`NOT EXISTS (
      SELECT 1
      FROM session_events
      WHERE session_events.org_id = session.org_id
        AND session_events.session_id = session.session_id
        AND number = session.last_event
        AND occurred_at >= ${toDate(cutoff)}
    )`
  ]
  const found = yield* lockOnNode(
    sql,
    org_id,
    sessionRows.all(sql`
    SELECT session_id
    FROM agent_sessions AS session
    WHERE ${sql.and([sql`org_id = ${org_id}`, sql`session_id < ${SessionId.lowerBound(cutoff)}`, ...conditions])}
    ORDER BY session_id
    LIMIT ${MAX_SESSIONS}
    FOR UPDATE SKIP LOCKED
  `)
  )
  let sessions = 0
  let isWhole = true
  for (const { session_id } of found) {
    const deleted = yield* deleteSession(sql, org_id, session_id, {
      usage,
      now,
      keepsCounts: true,
      conditions
    })
    sessions += deleted.sessions
    isWhole &&= deleted.isGone
    // The rest of a large session is for the next transaction.
    if (!deleted.isGone) break
  }
  const result: ExpiredDeletion = { deleted: { sessions }, isOver: isWhole && found.length < MAX_SESSIONS }
  return result
})
