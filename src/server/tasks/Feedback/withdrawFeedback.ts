import { Effect, Option, Result } from "effect"
import { notFound } from "../../../api/notFound.ts"
import { FeedbackOfAnotherKey } from "../../../api/Problems.ts"
import { isOwnRequest } from "../../../domain/approvals/ApprovalState.ts"
import type { FeedbackId } from "../../../domain/Ids.ts"
import type { Principal } from "../../../domain/identity/Principal.ts"
import { transition } from "../../../domain/tasks/FeedbackState.ts"
import { toDate } from "../../../domain/Time.ts"
import { atomic } from "../../store/transaction.ts"
import type { Spans } from "../../telemetry/Spans.ts"
import { countedFeedbackColumns, feedbackCounts } from "../feedbackCounts.ts"
import { recordFeedbackSpan } from "./recordFeedbackSpan.ts"
import type { ReviewDeps } from "./reviewFeedback.ts"
import { type FeedbackRow, findRunTasks, lockFeedbackForUpdate, toFeedback } from "./rows.ts"

/** Withdraws feedback, also from the counts, and sends the withdrawal to the tools that got the score. Idempotent. */
export const withdrawFeedback = Effect.fnUntraced(function* (
  { audit, clock, spans, sql }: ReviewDeps & { readonly spans: Spans["Service"] },
  principal: Principal,
  id: FeedbackId
) {
  const { org_id } = principal
  const { row, wasCurrent } = yield* atomic(sql)(
    Effect.gen(function* () {
      const row = yield* lockFeedbackForUpdate(sql, org_id, id)
      if (row === undefined) return yield* notFound("feedback")
      if (!isOwnRequest(row.created_by_id, principal)) {
        return yield* new FeedbackOfAnotherKey({
          detail: `The API key "${row.created_by_name}" (${row.created_by_id}) gave this feedback. Use that key or one that it made.`
        })
      }
      if (row.withdrawn_at !== null) return { row, wasCurrent: false }
      const now = yield* clock.now
      const status = Result.getOrElse(transition(row.status, "Withdraw"), () => row.status)
      const withdrawn: FeedbackRow = { ...row, status, is_current: false, withdrawn_at: now }
      // A closed correction needs no input for a promotion.
      yield* sql`
        WITH earlier AS (
          SELECT ${sql.literal(countedFeedbackColumns())}
          FROM feedback
          WHERE org_id = ${org_id}
            AND feedback_id = ${id}
        ), ${feedbackCounts(sql, { earlier: -1 })}
        UPDATE feedback
        SET
          status = ${status},
          is_current = false,
          withdrawn_at = ${toDate(now)},
          input_digest = CASE WHEN status = 'staged' THEN NULL ELSE input_digest END,
          input_bytes = CASE WHEN status = 'staged' THEN NULL ELSE input_bytes END
        WHERE org_id = ${org_id}
          AND feedback_id = ${id}
      `
      yield* audit.record(principal, "feedback.withdrawn", id, {
        task_id: row.task_id,
        inference_log_id: row.trace_id
      })
      return { row: withdrawn, wasCurrent: row.is_current }
    })
  )
  const record = toFeedback(row)
  if (wasCurrent) {
    const [run] = yield* findRunTasks(sql, [{ org_id, trace_id: row.trace_id }], org_id)
    // The spans of a deleted run are erased.
    if (run !== undefined && Option.isSome(run)) {
      yield* recordFeedbackSpan(spans, org_id, record, row.author, run.value)
    }
  }
  return record
})
