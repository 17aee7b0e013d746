import { type Array as Arr, Effect } from "effect"
import type { SqlClient } from "effect/sql"
import type { OrgId, SessionId, TraceId } from "../../domain/Ids.ts"
import type { NewSessionEvent } from "../../domain/approvals/SessionEvent.ts"
import { formatTimestamp, type Timestamp, toDate } from "../../domain/Time.ts"
import { int4Array, int8Array, textArray } from "../store/pgArrays.ts"
import { signalEvents } from "./SessionSignals.ts"

/** Events of one session that are about to be recorded, in order. A list names each session once. */
export interface SessionEventBatch {
  readonly org_id: OrgId
  readonly session_id: SessionId
  readonly events: Arr.NonEmptyReadonlyArray<NewSessionEvent>
}

/**
 * Records events of sessions within the caller's transaction. Their numbers are taken from the session's row, whose lock this
 * holds to the end of the transaction: numbers follow commit order, without a gap that could be filled later. However many
 * sessions, it is two statements. Once committed, the sessions' streams are told. Answers with the sessions' traces.
 */
export const appendEvents = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  groups: Arr.NonEmptyReadonlyArray<SessionEventBatch>,
  now: Timestamp
) {
  const numbered = yield* sql<{
    readonly session_id: SessionId
    readonly trace_id: TraceId
    readonly before: number
  }>`
    UPDATE agent_sessions
    SET last_event = last_event + more.count
    FROM unnest(
      ${textArray(groups.map(({ org_id }) => org_id))}::text[],
      ${textArray(groups.map(({ session_id }) => session_id))}::text[],
      ${int4Array(groups.map(({ events }) => events.length))}::int[]
    ) AS more (org_id, session_id, count)
    WHERE agent_sessions.org_id = more.org_id
      AND agent_sessions.session_id = more.session_id
    RETURNING agent_sessions.session_id, trace_id, (last_event - more.count)::float8 AS before
  `
  const before = new Map(numbered.map((row) => [row.session_id, row.before]))
  const occurred_at = formatTimestamp(now)
  const rows = groups.flatMap(({ events, org_id, session_id }) =>
    events.map((event, index) => {
      const number = (before.get(session_id) ?? 0) + index + 1
      return { org_id, session_id, number, event, data: dataOf(session_id, number, event, occurred_at) }
    })
  )
  yield* sql`
    INSERT INTO session_events (org_id, session_id, number, type, step_id, occurred_at, data)
    SELECT org_id, session_id, number, type, step_id, ${toDate(now)}::timestamptz, data::json
    FROM unnest(
      ${textArray(rows.map(({ org_id }) => org_id))}::text[],
      ${textArray(rows.map(({ session_id }) => session_id))}::text[],
      ${int8Array(rows.map(({ number }) => number))}::bigint[],
      ${textArray(rows.map(({ event }) => event.type))}::text[],
      ${textArray(rows.map(({ event }) => event.step_id))}::text[],
      ${textArray(rows.map(({ data }) => data))}::text[]
    ) AS more (org_id, session_id, number, type, step_id, data)
  `
  yield* signalEvents(
    sql,
    groups.map(({ events, session_id }) => ({
      session_id,
      newest: (before.get(session_id) ?? 0) + events.length
    }))
  )
  return new Map(numbered.map((row) => [row.session_id, row.trace_id]))
})

/** The event as the stream tells it: one line of JSON. */
const dataOf = (session_id: SessionId, number: number, event: NewSessionEvent, occurred_at: string): string =>
  JSON.stringify({
    id: number,
    type: event.type,
    session_id,
    step_id: event.step_id,
    occurred_at,
    ...event.payload
  })
