import { type Array as Arr, Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { type OrgId, SessionId } from "../domain/Ids.ts"
import type { NewSessionEvent } from "../domain/SessionEvent.ts"
import { formatTimestamp, type Timestamp, toDate } from "../domain/Time.ts"
import { signalEvents } from "./SessionSignals.ts"

/** Events of one session that are about to be recorded, in order. A list names each session once. */
export interface SessionGroup {
  readonly org_id: OrgId
  readonly session_id: SessionId
  readonly events: Arr.NonEmptyReadonlyArray<NewSessionEvent>
}

/**
 * Records events of sessions within the caller's transaction. Their numbers are taken from the session's row, whose lock this
 * holds to the end of the transaction: numbers follow commit order, without a gap that could be filled later. However many
 * sessions, it is two statements. Once committed, the sessions' streams are told.
 */
export const appendEvents = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  groups: Arr.NonEmptyReadonlyArray<SessionGroup>,
  now: Timestamp
) {
  const numbered = yield* sql`
    UPDATE agent_sessions
    SET last_event = last_event + more.count
    FROM json_to_recordset(${JSON.stringify(
      groups.map(({ events, org_id, session_id }) => ({ org_id, session_id, count: events.length }))
    )}::json) AS more (org_id text, session_id text, count int)
    WHERE agent_sessions.org_id = more.org_id
      AND agent_sessions.session_id = more.session_id
    RETURNING agent_sessions.session_id, (last_event - more.count)::text AS before
  `
  const before = new Map((yield* decodeNumbered(numbered)).map((row) => [row.session_id, row.before]))
  const rows = groups.flatMap(({ events, org_id, session_id }) =>
    events.map((event, index) => {
      const number = (before.get(session_id) ?? 0) + index + 1
      const { step_id, type } = event
      return { org_id, session_id, number, type, step_id, data: dataOf(session_id, number, event, now) }
    })
  )
  yield* sql`
    INSERT INTO session_events (org_id, session_id, number, type, step_id, occurred_at, data)
    SELECT org_id, session_id, number, type, step_id, ${toDate(now)}::timestamptz, data
    FROM json_to_recordset(${JSON.stringify(rows)}::json)
      AS more (org_id text, session_id text, number bigint, type text, step_id text, data json)
  `
  yield* signalEvents(
    sql,
    groups.map(({ events, session_id }) => ({
      session_id,
      newest: (before.get(session_id) ?? 0) + events.length
    }))
  )
})

const decodeNumbered = Schema.decodeUnknownEffect(
  Schema.Array(Schema.Struct({ session_id: SessionId, before: Schema.NumberFromString }))
)

/** The event as the stream tells it. */
const dataOf = (session_id: SessionId, number: number, event: NewSessionEvent, now: Timestamp) => ({
  id: number,
  type: event.type,
  session_id,
  step_id: event.step_id,
  occurred_at: formatTimestamp(now),
  ...event.about
})
