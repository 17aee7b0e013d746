import { type Array as Arr, Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { OrgId, SessionId } from "../domain/Ids.ts"
import type { NewSessionEvent } from "../domain/SessionEvent.ts"
import { formatTimestamp, type Timestamp, toDate } from "../domain/Time.ts"

/** Events of one session that are about to be recorded, in order. A list names each session once. */
export interface SessionGroup {
  readonly org_id: OrgId
  readonly session_id: SessionId
  readonly events: Arr.NonEmptyReadonlyArray<NewSessionEvent>
}

/**
 * Records events of sessions within the caller's transaction. Their numbers are taken from the session's row, whose lock this
 * holds to the end of the transaction: numbers follow commit order, without a gap that could be filled later. However many
 * sessions, it is two statements.
 */
export const appendEvents = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  groups: Arr.NonEmptyReadonlyArray<SessionGroup>,
  now: Timestamp
) {
  const numbered = yield* sql`
    UPDATE agent_sessions
    SET last_event = last_event + more.count
    FROM unnest(
      ${groups.map(({ org_id }) => org_id)}::text[],
      ${groups.map(({ session_id }) => session_id)}::text[],
      ${groups.map(({ events }) => events.length)}::int[]
    ) AS more (org_id, session_id, count)
    WHERE agent_sessions.org_id = more.org_id
      AND agent_sessions.session_id = more.session_id
    RETURNING agent_sessions.session_id, (last_event - more.count)::text AS before
  `
  const before = new Map((yield* decodeNumbered(numbered)).map((row) => [row.session_id, row.before]))
  const rows = groups.flatMap(({ events, org_id, session_id }) =>
    events.map((event, index) => {
      const number = (before.get(session_id) ?? 0) + index + 1
      return { org_id, session_id, number, event }
    })
  )
  yield* sql`
    INSERT INTO session_events (org_id, session_id, number, type, step_id, occurred_at, data)
    SELECT org_id, session_id, number, type, step_id, ${toDate(now)}::timestamptz, data::json
    FROM unnest(
      ${rows.map(({ org_id }) => org_id)}::text[],
      ${rows.map(({ session_id }) => session_id)}::text[],
      ${rows.map(({ number }) => number)}::int[],
      ${rows.map(({ event }) => event.type)}::text[],
      ${rows.map(({ event }) => event.step_id)}::text[],
      ${rows.map((row) => dataOf(row, now))}::text[]
    ) AS more (org_id, session_id, number, type, step_id, data)
  `
})

const decodeNumbered = Schema.decodeUnknownEffect(
  Schema.Array(Schema.Struct({ session_id: SessionId, before: Schema.NumberFromString }))
)

/** The event's one line in the stream. */
const dataOf = (
  row: { readonly session_id: SessionId; readonly number: number; readonly event: NewSessionEvent },
  now: Timestamp
): string =>
  JSON.stringify({
    id: row.number,
    type: row.event.type,
    session_id: row.session_id,
    step_id: row.event.step_id,
    occurred_at: formatTimestamp(now),
    ...row.event.about
  })
