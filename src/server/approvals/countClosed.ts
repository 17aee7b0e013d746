import { type Context, Effect } from "effect"
import { approvalsClosed, approvalWait } from "../observability/metricDefinitions.ts"
import type { ApprovalRow } from "./approvalRows.ts"

/** Counts the closed ones of these approvals, and records how long they waited. Called once for each transition, after its commit. */
export const countClosed = (rows: ReadonlyArray<ApprovalRow>): Effect.Effect<void> =>
  Effect.contextWith((context: Context.Context<never>) => {
    for (const { decided_at, decision_source, outcome, requested_at, status } of rows) {
      if (status === "pending" || decided_at === null || decision_source === null || outcome === null)
        continue
      approvalsClosed(outcome, decision_source).updateUnsafe(1, context)
      const millis = decided_at.epochMilliseconds - requested_at.epochMilliseconds
      approvalWait(decision_source).updateUnsafe(Math.max(0, millis) / 1_000, context)
    }
    return Effect.void
  })
