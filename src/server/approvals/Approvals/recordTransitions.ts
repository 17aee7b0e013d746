import { Array as Arr, Effect } from "effect"
import type { SqlClient } from "effect/sql"
import type { ApprovalTransitionEvent } from "../../../domain/approvals/ApprovalEvent.ts"
import type { ApprovalTransition } from "../../../domain/approvals/ApprovalState.ts"
import { approvalTransitionedEvent } from "../../../domain/approvals/SessionEvent.ts"
import type { SessionId, TraceId } from "../../../domain/Ids.ts"
import { approvalSpan } from "../../../domain/telemetry/SpanConventions.ts"
import type { Timestamp } from "../../../domain/Time.ts"
import type { Notifications } from "../../notifications/Notifications.ts"
import { appendEvents } from "../SessionEvents.ts"
import type { RecordedTrace, Spans } from "../../telemetry/Spans.ts"
import { updateApprovals } from "./transitionRows.ts"
import { type ApprovalRow, toApproval, withState } from "./rows.ts"

/** What recording needs of the house. */
export interface RecordDeps {
  readonly sql: SqlClient.SqlClient
  readonly notifications: Notifications["Service"]
  readonly spans: Spans["Service"]
}

/** An approval and where it goes. */
export interface PendingTransition {
  readonly row: ApprovalRow
  readonly transitions: Arr.NonEmptyReadonlyArray<ApprovalTransition>
}

/** An approval that has moved: the row to write, and what is told of it. */
interface Moved {
  readonly row: ApprovalRow
  readonly moments: Arr.NonEmptyReadonlyArray<ApprovalTransitionEvent>
}

const moved = ({ row, transitions }: PendingTransition): Moved => {
  const steps = Arr.map(transitions, ({ event, state }) => ({ event, row: withState(row, state) }))
  return {
    row: Arr.lastNonEmpty(steps).row,
    moments: Arr.map(steps, ({ event, row }): ApprovalTransitionEvent => ({
      event,
      approval: toApproval(row)
    }))
  }
}

/**
 * Records where approvals went, within the caller's transaction, which holds their sessions' rows: the new states, the sessions'
 * events and the deliveries exist together or not at all. However many approvals, the statements are few: two for the events, one
 * for the states, and those of `publish` for each organization.
 */
export const recordTransitions = Effect.fnUntraced(function* (
  { notifications, spans, sql }: RecordDeps,
  moving: Arr.NonEmptyReadonlyArray<PendingTransition>,
  now: Timestamp
) {
  const all = Arr.map(moving, moved)
  const rows = Arr.map(all, ({ row }) => row)
  yield* updateApprovals(sql, rows)
  const groups = Object.values(Arr.groupBy(all, ({ row }) => row.session_id)).map((group) => ({
    org_id: Arr.headNonEmpty(group).row.org_id,
    session_id: Arr.headNonEmpty(group).row.session_id,
    events: Arr.flatMap(group, ({ moments }) => Arr.map(moments, approvalTransitionedEvent))
  }))
  const traces = Arr.isArrayNonEmpty(groups)
    ? yield* appendEvents(sql, groups, now)
    : new Map<SessionId, TraceId>()
  // In one order everywhere: publishing may hold destinations, and two transactions with the same organizations could wait for each other.
  const organizations = Object.values(Arr.groupBy(all, ({ row }) => row.org_id)).toSorted((a, b) =>
    Arr.headNonEmpty(a).row.org_id < Arr.headNonEmpty(b).row.org_id ? -1 : 1
  )
  yield* Effect.forEach(
    organizations,
    (group) => {
      const { org_id } = Arr.headNonEmpty(group).row
      const own = group.map(({ row }) => row)
      return Effect.andThen(
        notifications.publish(
          org_id,
          Arr.flatMap(group, ({ moments }) => moments),
          now
        ),
        spans.record(org_id, ...closedSpans(own, traces, now))
      )
    },
    { discard: true }
  )
  return rows
})

/** The spans of approvals that are closed. */
const closedSpans = (
  rows: ReadonlyArray<ApprovalRow>,
  traces: ReadonlyMap<SessionId, TraceId>,
  now: Timestamp
): ReadonlyArray<RecordedTrace> =>
  rows.flatMap((row) => {
    const trace_id = traces.get(row.session_id)
    if (trace_id === undefined || row.status === "pending") return []
    // Made at once: the row has the arguments, which must not be held until it is sent.
    const span = approvalSpan(trace_id, toApproval(row), now.epochMilliseconds)
    return [{ trace_id, count: 1, make: () => [span] }]
  })

/** `recordAll` for one approval, which may not have moved: the row as it is then. */
export const recordApprovalTransitions = (
  recording: RecordDeps,
  row: ApprovalRow,
  transitions: ReadonlyArray<ApprovalTransition>,
  now: Timestamp
) =>
  Arr.isReadonlyArrayNonEmpty(transitions)
    ? Effect.map(recordTransitions(recording, [{ row, transitions }], now), ([moved]) => moved)
    : Effect.succeed(row)
