import { Array as Arr, Effect } from "effect"
import type { ApprovalTransition } from "../../../domain/approvals/ApprovalState.ts"
import { approvalTransitionedEvent } from "../../../domain/approvals/SessionEvent.ts"
import type { Timestamp } from "../../../domain/Time.ts"
import type { NewAuditRow } from "../../identity/auditWrites.ts"
import type { Spans } from "../../telemetry/Spans.ts"
import type { ApprovalRow } from "../approvalRows.ts"
import type { SessionWrite } from "../SessionWriter.ts"
import { closedSpan, completeTransitions } from "./recordTransitions.ts"

/** The write of an approval's transitions. */
export const transitionWrite = (
  spans: Spans["Service"],
  from: ApprovalRow,
  transitions: Arr.NonEmptyReadonlyArray<ApprovalTransition>,
  audit: NewAuditRow | null,
  now: Timestamp
): SessionWrite => {
  const { events, row } = completeTransitions({ row: from, transitions })
  return {
    org_id: from.org_id,
    session_id: from.session_id,
    change: { _tag: "Transition", from, to: row, audit },
    rules_revision: null,
    events: Arr.map(events, approvalTransitionedEvent),
    published: events,
    now,
    onWritten: ({ trace_id }) =>
      row.status === "pending" ? Effect.void : spans.record(from.org_id, closedSpan(trace_id, row, now))
  }
}
