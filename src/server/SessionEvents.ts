import { Array as Arr, Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import type { OrgId, SessionId } from "../domain/Ids.ts"
import type { NewSessionEvent } from "../domain/SessionEvent.ts"
import { formatTimestamp, type Timestamp, toDate } from "../domain/Time.ts"

/**
 * Records events of a session, in order, within the caller's transaction. Their numbers are taken from the session's row, whose lock
 * this holds to the end of the transaction: numbers follow commit order, without a gap that could be filled later.
 */
export const appendEvents = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  session: { readonly org_id: OrgId; readonly session_id: SessionId },
  events: Arr.NonEmptyReadonlyArray<NewSessionEvent>,
  now: Timestamp
) {
  const rows = yield* sql`
    UPDATE agent_sessions
    SET last_event = last_event + ${events.length}::int
    WHERE org_id = ${session.org_id}
      AND session_id = ${session.session_id}
    RETURNING (last_event - ${events.length}::int)::text AS before
  `
  const [{ before }] = yield* decodeBefore(rows)
  yield* sql`
    INSERT INTO session_events ${sql.insert(
      Arr.map(events, (event, index) => {
        const number = before + index + 1
        return {
          org_id: session.org_id,
          session_id: session.session_id,
          number,
          type: event.type,
          step_id: event.step_id,
          occurred_at: toDate(now),
          data: JSON.stringify({
            id: number,
            type: event.type,
            session_id: session.session_id,
            step_id: event.step_id,
            occurred_at: formatTimestamp(now),
            ...event.about
          })
        }
      })
    )}
  `
})

const decodeBefore = Schema.decodeUnknownEffect(
  Schema.Tuple([Schema.Struct({ before: Schema.NumberFromString })])
)
