import { Array as Arr, Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { Approval } from "../../domain/Approval.ts"
import type { ApprovalMove } from "../../domain/ApprovalState.ts"
import { approvalMoved, type NewSessionEvent } from "../../domain/SessionEvent.ts"
import type { Timestamp } from "../../domain/Time.ts"
import type { Notifications } from "../Notifications.ts"
import { appendEvents } from "../SessionEvents.ts"
import { type ApprovalRow, toApproval, updateApproval, withState } from "./rows.ts"

/** What recording needs of the house. */
export interface Recording {
  readonly sql: SqlClient.SqlClient
  readonly notifications: Notifications["Service"]
}

/** A moment of an approval: the event it is told by, and the approval as it stood then. */
export interface Moment {
  readonly event: ApprovalMove["event"]
  readonly approval: Approval
}

const encode = Schema.encodeSync(Schema.toCodecJson(Approval))
const isObject = Schema.is(Schema.Record(Schema.String, Schema.Json))

/** The session's events of these moments. */
export const sessionEventsOf = (
  moments: Arr.NonEmptyReadonlyArray<Moment>
): Arr.NonEmptyReadonlyArray<NewSessionEvent> =>
  Arr.map(moments, ({ event, approval }) =>
    approvalMoved(event, approval, (shown) => {
      const encoded = encode(shown)
      return isObject(encoded) ? encoded : {}
    })
  )

/**
 * Records where an approval went, within the caller's transaction, which holds the session's row: the new state, the session's
 * events and the deliveries exist together or not at all.
 */
export const recordMoves = Effect.fnUntraced(function* (
  { notifications, sql }: Recording,
  row: ApprovalRow,
  moves: ReadonlyArray<ApprovalMove>,
  now: Timestamp
) {
  if (!Arr.isReadonlyArrayNonEmpty(moves)) return row
  const moments = Arr.map(moves, ({ event, state }) => ({
    event,
    approval: toApproval(withState(row, state))
  }))
  const moved = withState(row, Arr.lastNonEmpty(moves).state)
  yield* updateApproval(sql, moved)
  yield* appendEvents(sql, row, sessionEventsOf(moments), now)
  yield* notifications.publish(row.org_id, moments, now)
  return moved
})
