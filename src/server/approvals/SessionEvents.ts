import { type Array as Arr, Context, Effect, Layer } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import type { OrgId, SessionId, TraceId } from "../../domain/Ids.ts"
import type { NewSessionEvent } from "../../domain/approvals/SessionEvent.ts"
import { formatTimestamp, type Timestamp, toDate } from "../../domain/Time.ts"
import { onlyOrganization, sameOrganization } from "../store/onlyOrganization.ts"
import { int4Array, int8Array, textArray } from "../store/pgArrays.ts"
import { SessionSignals } from "./SessionSignals.ts"

/** New events of one session, in order. */
export interface SessionEventBatch {
  readonly org_id: OrgId
  readonly session_id: SessionId
  readonly events: Arr.NonEmptyReadonlyArray<NewSessionEvent>
}

/** The event log of sessions. `SessionStream` reads it. */
export class SessionEvents extends Context.Service<
  SessionEvents,
  {
    /**
     * Appends events within the caller's transaction and returns the trace ids of the sessions. `batches` names each session once.
     *
     * The numbers come from the session's row, which stays locked until the transaction ends: numbers follow commit order, and no
     * smaller number is committed later. It takes two statements however many sessions there are. After the commit it publishes to
     * `SessionSignals`.
     */
    readonly append: (
      batches: Arr.NonEmptyReadonlyArray<SessionEventBatch>,
      now: Timestamp
    ) => Effect.Effect<ReadonlyMap<SessionId, TraceId>, SqlError.SqlError>
  }
>()("countersign/server/approvals/SessionEvents") {
  static readonly layer: Layer.Layer<SessionEvents, never, SqlClient.SqlClient | SessionSignals> =
    Layer.effect(
      SessionEvents,
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const signals = yield* SessionSignals
        return SessionEvents.of({
          append: Effect.fnUntraced(function* (batches, now) {
            const previous = yield* reserveNumbers(sql, batches)
            const newestBefore = new Map(previous.map((row) => [row.session_id, row.newest_before]))
            const occurred_at = formatTimestamp(now)
            const rows = batches.flatMap(({ events, org_id, session_id }) =>
              events.map((event, index): EventRow => {
                const number = (newestBefore.get(session_id) ?? 0) + index + 1
                const data = encodeData(session_id, number, event, occurred_at)
                return { org_id, session_id, number, event, data }
              })
            )
            yield* insertEvents(sql, rows, now)
            yield* signals.publish(
              batches.map(({ events, session_id }) => ({
                session_id,
                newest: (newestBefore.get(session_id) ?? 0) + events.length
              }))
            )
            return new Map(previous.map((row) => [row.session_id, row.trace_id]))
          })
        })
      })
    )
}

interface EventRow {
  readonly org_id: OrgId
  readonly session_id: SessionId
  readonly number: number
  readonly event: NewSessionEvent
  readonly data: string
}

/** Raises the sessions' last event numbers, which locks their rows, and returns the numbers before. */
const reserveNumbers = (sql: SqlClient.SqlClient, batches: ReadonlyArray<SessionEventBatch>) =>
  sql<{
    readonly session_id: SessionId
    readonly trace_id: TraceId
    readonly newest_before: number
  }>`
    UPDATE agent_sessions
    SET last_event = last_event + added.count
    FROM unnest(
      ${textArray(batches.map(({ org_id }) => org_id))}::text[],
      ${textArray(batches.map(({ session_id }) => session_id))}::text[],
      ${int4Array(batches.map(({ events }) => events.length))}::int[]
    ) AS added (org_id, session_id, count)
    WHERE agent_sessions.org_id = added.org_id
      AND agent_sessions.session_id = added.session_id
      ${onlyOrganization(sql, "agent_sessions.org_id", sameOrganization(batches))}
    RETURNING agent_sessions.session_id, trace_id, (last_event - added.count)::float8 AS newest_before
  `

const insertEvents = (sql: SqlClient.SqlClient, rows: ReadonlyArray<EventRow>, now: Timestamp) =>
  sql`
    INSERT INTO session_events (org_id, session_id, number, type, step_id, occurred_at, data)
    SELECT org_id, session_id, number, type, step_id, ${toDate(now)}::timestamptz, data::json
    FROM unnest(
      ${textArray(rows.map(({ org_id }) => org_id))}::text[],
      ${textArray(rows.map(({ session_id }) => session_id))}::text[],
      ${int8Array(rows.map(({ number }) => number))}::bigint[],
      ${textArray(rows.map(({ event }) => event.type))}::text[],
      ${textArray(rows.map(({ event }) => event.step_id))}::text[],
      ${textArray(rows.map(({ data }) => data))}::text[]
    ) AS new_events (org_id, session_id, number, type, step_id, data)
  `

/** The event's data in the stream: one line of JSON. */
const encodeData = (
  session_id: SessionId,
  number: number,
  event: NewSessionEvent,
  occurred_at: string
): string => `{"id":${number},${encodeEventTail(session_id, event, occurred_at)}`

/** The event's data without the brace and the `id` that it begins with, for a statement that assigns the number. */
export const encodeEventTail = (session_id: SessionId, event: NewSessionEvent, occurred_at: string): string =>
  JSON.stringify({
    type: event.type,
    session_id,
    step_id: event.step_id,
    occurred_at,
    ...event.payload
  }).slice(1)
