import { Array as Arr, DateTime, Effect } from "effect"
import type { SqlClient } from "effect/sql"
import { transition } from "../../../domain/approvals/ApprovalState.ts"
import type { ApprovalId, OrgId } from "../../../domain/Ids.ts"
import type { Timestamp } from "../../../domain/Time.ts"
import type { Spans } from "../../telemetry/Spans.ts"
import { findApproval, lockApprovalForUpdate, stateOf, toApproval } from "../approvalRows.ts"
import { transitionWrite } from "../Approvals/transitionWrite.ts"
import type { ResumedStep, SessionWriter, StepKey } from "../SessionWriter.ts"

/** The functions that the current decision of a saved step takes. */
export const makeSavedSteps = (
  sql: SqlClient.SqlClient,
  spans: Spans["Service"],
  writer: SessionWriter["Service"]
) => {
  /** Closes the windows of a saved step's approval that have passed, under the session's lock, and reads the step again. */
  const closeWindows = Effect.fnUntraced(function* (key: StepKey, approval_id: ApprovalId, now: Timestamp) {
    const row = yield* Effect.orDie(lockApprovalForUpdate(sql, key.org_id, approval_id))
    if (row === undefined)
      return yield* Effect.die(new Error("A step's approval must exist as long as the step"))
    const { transitions } = transition(stateOf(row), { _tag: "Time" }, now)
    if (Arr.isReadonlyArrayNonEmpty(transitions))
      yield* writer.write(transitionWrite(spans, row, transitions, null, now), true)
    return (
      (yield* writer.findStep(key)) ?? (yield* Effect.die(new Error("A locked session must keep its steps")))
    )
  })

  return {
    /** A saved step after the windows that have passed are closed. Undefined: that needs the lock. */
    withoutPassedWindows: (key: StepKey, saved: ResumedStep, isLocked: boolean, now: Timestamp) => {
      const { approval, approval_id } = saved
      const dueAt = approval?.next_due_at ?? null
      if (approval_id === null || dueAt === null || DateTime.isGreaterThan(dueAt, now))
        return Effect.succeed(saved)
      return isLocked ? closeWindows(key, approval_id, now) : Effect.undefined
    },
    /** The approval of a saved step, for its decision. The arguments of a proposal can be large, so only the answer reads them. */
    approvalOf: Effect.fnUntraced(function* (org_id: OrgId, { approval, approval_id }: ResumedStep) {
      if (approval === null) return null
      if (!approval.has_proposal || approval_id === null) return { ...approval, proposal: null }
      const row = yield* Effect.orDie(findApproval(sql, org_id, approval_id))
      return { ...approval, proposal: row === undefined ? null : toApproval(row).proposal }
    })
  }
}
