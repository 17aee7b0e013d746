import { Array as Arr, Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { Approval } from "../../domain/Approval.ts"
import type { ApprovalMove } from "../../domain/ApprovalState.ts"
import { approvalMoved, type NewSessionEvent } from "../../domain/SessionEvent.ts"
import type { Timestamp } from "../../domain/Time.ts"
import type { Notifications } from "../Notifications.ts"
import { appendEvents } from "../SessionEvents.ts"
import { type ApprovalRow, toApproval, updateApprovals, withState } from "./rows.ts"

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

const encode = Schema.encodeSync(Schema.toCodecJson(Approval), { disableChecks: true })
const isObject = (value: unknown): value is Record<string, Schema.Json> =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/** The session's event of a moment. */
export const sessionEventOf = ({ approval, event }: Moment): NewSessionEvent =>
  approvalMoved(event, approval, (shown) => {
    const encoded = encode(shown)
    return isObject(encoded) ? encoded : {}
  })

/** An approval and where it goes. */
export interface Moving {
  readonly row: ApprovalRow
  readonly moves: Arr.NonEmptyReadonlyArray<ApprovalMove>
}

/**
 * Records where approvals went, within the caller's transaction, which holds their sessions' rows: the new states, the sessions'
 * events and the deliveries exist together or not at all. However many approvals, the statements are few: two for the events, one
 * for the states, and those of `publish` for each organization.
 */
export const recordAll = Effect.fnUntraced(function* (
  { notifications, sql }: Recording,
  moving: Arr.NonEmptyReadonlyArray<Moving>,
  now: Timestamp
) {
  const moved = Arr.map(moving, ({ moves, row }) => ({
    row: withState(row, Arr.lastNonEmpty(moves).state),
    moments: Arr.map(moves, ({ event, state }): Moment => ({
      event,
      approval: toApproval(withState(row, state))
    }))
  }))
  yield* updateApprovals(
    sql,
    Arr.map(moved, ({ row }) => row)
  )
  const bySession = Arr.groupBy(moved, ({ row }) => row.session_id)
  const groups = Object.values(bySession).map((group) => ({
    org_id: Arr.headNonEmpty(group).row.org_id,
    session_id: Arr.headNonEmpty(group).row.session_id,
    events: Arr.flatMap(group, ({ moments }) => Arr.map(moments, sessionEventOf))
  }))
  if (Arr.isArrayNonEmpty(groups)) yield* appendEvents(sql, groups, now)
  const byOrganization = Arr.groupBy(moved, ({ row }) => row.org_id)
  yield* Effect.forEach(
    Object.values(byOrganization),
    (group) =>
      notifications.publish(
        Arr.headNonEmpty(group).row.org_id,
        Arr.flatMap(group, ({ moments }) => moments),
        now
      ),
    { discard: true }
  )
  return Arr.map(moved, ({ row }) => row)
})

/** `recordAll` for one approval, which may not have moved: the row as it is then. */
export const recordMoves = (
  recording: Recording,
  row: ApprovalRow,
  moves: ReadonlyArray<ApprovalMove>,
  now: Timestamp
) =>
  Arr.isReadonlyArrayNonEmpty(moves)
    ? Effect.map(recordAll(recording, [{ row, moves }], now), ([moved]) => moved)
    : Effect.succeed(row)
