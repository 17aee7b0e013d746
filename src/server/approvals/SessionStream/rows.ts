import { Effect, Schema } from "effect"
import type { SqlClient, SqlError } from "effect/sql"
import { SessionId } from "../../../domain/Ids.ts"
import { float8Array, textArray } from "../../store/pgArrays.ts"
import { rowsOf } from "../../store/rows.ts"
import type { SessionSignal } from "../SessionSignals.ts"
import { encodeEvents } from "../sseFrames.ts"
import type { ReadResult, SessionKey } from "./Subscription.ts"

/** Events of one page. An event has a few hundred bytes, and 16 KiB at most. */
const PAGE_EVENTS = 100

const stateRows = rowsOf(
  Schema.Struct({
    newest: Schema.Number,
    closed: Schema.Boolean,
    first_retained: Schema.NullOr(Schema.Number)
  })
)

/** The numbers of a session's newest and first retained event, and whether it is closed; undefined for an unknown session. */
export const findSessionState = (sql: SqlClient.SqlClient, { org_id, session_id }: SessionKey) =>
  stateRows.first(sql`
    SELECT last_event::float8 AS newest,
      closed_at IS NOT NULL AS closed,
      (
        SELECT number::float8
        FROM session_events
        WHERE org_id = ${org_id}
          AND session_id = ${session_id}
        ORDER BY number
        LIMIT 1
      ) AS first_retained
    FROM agent_sessions
    WHERE org_id = ${org_id}
      AND session_id = ${session_id}
  `)

const eventRows = rowsOf(
  Schema.Struct({
    newest: Schema.Number,
    number: Schema.NullOr(Schema.Number),
    type: Schema.NullOr(Schema.String),
    data: Schema.NullOr(Schema.String)
  })
)

/** The next page of a session's events after a cursor. One snapshot reads both the events and the newest number. */
export const readEvents = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  { org_id, session_id }: SessionKey,
  after: number
): Effect.fn.Return<ReadResult, SqlError.SqlError> {
  const rows = yield* eventRows.all(sql`
    SELECT session.last_event::float8 AS newest, event.number::float8 AS number, event.type, event.data::text AS data
    FROM agent_sessions AS session
    LEFT JOIN LATERAL (
      SELECT number, type, data
      FROM session_events
      WHERE org_id = session.org_id
        AND session_id = session.session_id
        AND number > ${after}::bigint
      ORDER BY number
      LIMIT ${PAGE_EVENTS}
    ) AS event ON true
    WHERE session.org_id = ${org_id}
      AND session.session_id = ${session_id}
    ORDER BY event.number
  `)
  const newest = rows[0]?.newest ?? -1
  const events = rows.flatMap(({ data, number, type }) =>
    number === null || type === null || data === null ? [] : [{ number, type, data }]
  )
  const last = events.at(-1)
  if (last === undefined) return newest >= 0 && newest <= after ? { _tag: "UpToDate", newest } : gap
  if (events[0]?.number !== after + 1) return gap
  return {
    _tag: "EventsRead",
    bytes: encodeEvents(events),
    last: last.number,
    newest,
    closes: last.type === "session:closed"
  }
})

const gap: ReadResult = { _tag: "Gap" }

const signalRows = rowsOf(Schema.Struct({ session_id: SessionId, newest: Schema.Number }))

/**
 * Returns the sessions that have newer events than were signalled to this replica, in one statement. A deleted session
 * counts as one with another event: its streams then read, find that it is gone, and end.
 */
export const findMissedSignals = (
  sql: SqlClient.SqlClient,
  sessions: ReadonlyArray<SessionKey & { readonly newest: number }>
): Effect.Effect<ReadonlyArray<SessionSignal>, SqlError.SqlError> =>
  signalRows.all(sql`
    SELECT known.session_id, coalesce(session.last_event::float8, known.newest + 1) AS newest
    FROM unnest(
      ${textArray(sessions.map(({ org_id }) => org_id))},
      ${textArray(sessions.map(({ session_id }) => session_id))},
      ${float8Array(sessions.map(({ newest }) => newest))}
    ) AS known (org_id, session_id, newest)
    LEFT JOIN agent_sessions AS session ON session.org_id = known.org_id AND session.session_id = known.session_id
    WHERE session.session_id IS NULL
      OR session.last_event > known.newest
  `)
