import { Array as Arr, Effect } from "effect"
import type { SqlClient } from "effect/sql"
import type { ApprovalTransitionEvent } from "../../../domain/approvals/ApprovalEvent.ts"
import type { ApprovalTransition } from "../../../domain/approvals/ApprovalState.ts"
import { approvalTransitionedEvent } from "../../../domain/approvals/SessionEvent.ts"
import type { SessionId, TraceId } from "../../../domain/Ids.ts"
import { approvalSpan } from "../../../domain/telemetry/SpanConventions.ts"
import type { Timestamp } from "../../../domain/Time.ts"
import type { Notifications } from "../../notifications/Notifications.ts"
import type { RecordedTrace, Spans } from "../../telemetry/Spans.ts"
import type { SessionEvents } from "../SessionEvents.ts"
import { type ApprovalRow, toApproval, withState } from "../approvalRows.ts"
import { countClosed } from "../countClosed.ts"
import { updateApprovals } from "./transitionRows.ts"

/** Dependencies of `recordTransitions`. */
export interface RecordDeps {
  readonly sql: SqlClient.SqlClient
  readonly events: SessionEvents["Service"]
  readonly notifications: Notifications["Service"]
  readonly spans: Spans["Service"]
}

/** An approval as stored, and the transitions it has to make, in order. */
export interface PendingTransition {
  readonly row: ApprovalRow
  readonly transitions: Arr.NonEmptyReadonlyArray<ApprovalTransition>
}

/** An approval after its transitions, and one event for each of them. */
interface CompletedTransition {
  readonly row: ApprovalRow
  readonly events: Arr.NonEmptyReadonlyArray<ApprovalTransitionEvent>
}

/** The row and the events of an approval after its transitions. */
export const completeTransitions = ({ row, transitions }: PendingTransition): CompletedTransition => {
  const steps = Arr.map(transitions, ({ event, state }) => ({ event, row: withState(row, state) }))
  return {
    row: Arr.lastNonEmpty(steps).row,
    events: Arr.map(steps, ({ event, row }): ApprovalTransitionEvent => ({
      event,
      approval: toApproval(row)
    }))
  }
}

/**
 * Records transitions within the caller's transaction, which has locked the rows of their sessions: new states, session events and
 * deliveries are committed together or not at all. Returns the new rows, in the order of `pending`.
 *
 * The number of statements does not grow with the number of approvals: it takes two for the events, one for the states, and
 * `Notifications.publish` once for each organization.
 */
export const recordTransitions = Effect.fnUntraced(function* (
  deps: RecordDeps,
  pending: Arr.NonEmptyReadonlyArray<PendingTransition>,
  now: Timestamp
) {
  const completed = Arr.map(pending, completeTransitions)
  const rows = Arr.map(completed, ({ row }) => row)
  yield* updateApprovals(deps.sql, rows)
  yield* deps.sql.afterCommit(countClosed(rows))
  const batches = Object.values(Arr.groupBy(completed, ({ row }) => row.session_id)).map((group) => {
    const { org_id, session_id } = Arr.headNonEmpty(group).row
    return {
      org_id,
      session_id,
      events: Arr.flatMap(group, ({ events }) => Arr.map(events, approvalTransitionedEvent))
    }
  })
  const traces = Arr.isArrayNonEmpty(batches)
    ? yield* deps.events.append(batches, now)
    : new Map<SessionId, TraceId>()
  // Always in the order of ids: publishing can lock destinations, and two transactions over the same organizations could deadlock.
  const byOrganization = Object.values(Arr.groupBy(completed, ({ row }) => row.org_id)).toSorted((a, b) =>
    Arr.headNonEmpty(a).row.org_id < Arr.headNonEmpty(b).row.org_id ? -1 : 1
  )
  yield* Effect.forEach(
    byOrganization,
    (group) => {
      const { org_id } = Arr.headNonEmpty(group).row
      const events = Arr.flatMap(group, ({ events }) => events)
      const spans = closedSpans(
        group.map(({ row }) => row),
        traces,
        now
      )
      return Effect.andThen(
        deps.notifications.publish(org_id, events, now),
        deps.spans.record(org_id, ...spans)
      )
    },
    { discard: true }
  )
  return rows
})

/** One span for each closed approval. */
const closedSpans = (
  rows: ReadonlyArray<ApprovalRow>,
  traces: ReadonlyMap<SessionId, TraceId>,
  now: Timestamp
): ReadonlyArray<RecordedTrace> =>
  rows.flatMap((row) => {
    const trace_id = traces.get(row.session_id)
    return trace_id === undefined || row.status === "pending" ? [] : [closedSpan(trace_id, row, now)]
  })

/** The span of a closed approval. */
export const closedSpan = (trace_id: TraceId, row: ApprovalRow, now: Timestamp): RecordedTrace => {
  // Built now and not when it is sent: the row holds the arguments, which must not stay in memory until then.
  const span = approvalSpan(trace_id, toApproval(row), now.epochMilliseconds)
  return { trace_id, count: 1, make: () => [span] }
}
