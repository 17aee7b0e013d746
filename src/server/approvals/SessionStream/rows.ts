import { Effect, Schema } from "effect"
import type { SqlClient, SqlError } from "effect/sql"
import { KeyId, type OrgId, SessionId } from "../../../domain/Ids.ts"
import { type Timestamp, toDate } from "../../../domain/Time.ts"
import { float8Array, textArray } from "../../store/pgArrays.ts"
import type { SessionSignal } from "../SessionSignals.ts"
import { renderEvents } from "./sseFrames.ts"
import type { ReadResult, SessionKey } from "./Subscription.ts"

/** Events of one page. They are a few hundred bytes each, and 16 KiB at most. */
const PAGE_EVENTS = 100

const StateRow = Schema.Struct({
  newest: Schema.Number,
  closed: Schema.Boolean,
  first_kept: Schema.NullOr(Schema.Number)
})

const decodeState = Schema.decodeUnknownEffect(Schema.Array(StateRow))

/** Where a session stands: its newest event, its first kept one, whether it is closed. Undefined: there is no such session. */
export const sessionState = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  { org_id, session_id }: SessionKey
) {
  const rows = yield* sql`
    SELECT last_event::float8 AS newest,
      closed_at IS NOT NULL AS closed,
      (
        SELECT number::float8
        FROM session_events
        WHERE org_id = ${org_id}
          AND session_id = ${session_id}
        ORDER BY number
        LIMIT 1
      ) AS first_kept
    FROM agent_sessions
    WHERE org_id = ${org_id}
      AND session_id = ${session_id}
  `
  return (yield* decodeState(rows))[0]
})

const EventRow = Schema.Struct({
  newest: Schema.Number,
  number: Schema.NullOr(Schema.Number),
  type: Schema.NullOr(Schema.String),
  data: Schema.NullOr(Schema.String)
})

const decodeEvents = Schema.decodeUnknownEffect(Schema.Array(EventRow))

/** The next events of a session after a cursor. One snapshot holds the events and the number they go up to. */
export const readEvents = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  { org_id, session_id }: SessionKey,
  after: number
): Effect.fn.Return<ReadResult, SqlError.SqlError | Schema.SchemaError> {
  const rows = yield* sql`
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
  `.pipe(Effect.flatMap(decodeEvents))
  const newest = rows[0]?.newest ?? -1
  const events = rows.flatMap(({ data, number, type }) =>
    number === null || type === null || data === null ? [] : [{ number, type, data }]
  )
  const last = events.at(-1)
  if (last === undefined) return newest >= 0 && newest <= after ? { _tag: "Nothing", newest } : gap
  if (events[0]?.number !== after + 1) return gap
  return {
    _tag: "EventsRead",
    bytes: renderEvents(events),
    last: last.number,
    newest,
    closes: last.type === "session:closed"
  }
})

const gap: ReadResult = { _tag: "Gap" }

const decodeSignals = Schema.decodeUnknownEffect(
  Schema.Array(Schema.Struct({ session_id: SessionId, newest: Schema.Number }))
)

/** Of the sessions followed, those that have events nobody told us of: one statement, however many there are. */
export const missedEvents = (
  sql: SqlClient.SqlClient,
  followed: ReadonlyArray<SessionKey & { readonly newest: number }>
) =>
  sql`
    SELECT session.session_id, session.last_event::float8 AS newest
    FROM unnest(
      ${textArray(followed.map(({ org_id }) => org_id))},
      ${textArray(followed.map(({ session_id }) => session_id))},
      ${float8Array(followed.map(({ newest }) => newest))}
    ) AS known (org_id, session_id, newest)
    JOIN agent_sessions AS session USING (org_id, session_id)
    WHERE session.last_event > known.newest
  `.pipe(
    Effect.flatMap(decodeSignals),
    Effect.map((rows): ReadonlyArray<SessionSignal> => rows)
  )

const decodeKeys = Schema.decodeUnknownEffect(Schema.Array(Schema.Struct({ key_id: KeyId })))

/** Of the keys in whose name streams are open, those that may no longer: revoked, expired or gone. One statement for all. */
export const endedKeys = (
  sql: SqlClient.SqlClient,
  keys: ReadonlyArray<{ readonly org_id: OrgId; readonly key_id: KeyId }>,
  now: Timestamp
) =>
  sql`
    SELECT key_id
    FROM unnest(
      ${textArray(keys.map(({ org_id }) => org_id))},
      ${textArray(keys.map(({ key_id }) => key_id))}
    ) AS held (org_id, key_id)
    LEFT JOIN api_keys USING (org_id, key_id)
    WHERE api_keys.digest IS NULL
      OR api_keys.revoked_at IS NOT NULL
      OR api_keys.expires_at <= ${toDate(now)}::timestamptz
  `.pipe(
    Effect.flatMap(decodeKeys),
    Effect.map((rows) => rows.map(({ key_id }) => key_id))
  )
