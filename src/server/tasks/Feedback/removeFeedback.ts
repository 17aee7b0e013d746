import { Effect } from "effect"
import { notFound } from "../../../api/notFound.ts"
import type { FeedbackId } from "../../../domain/Ids.ts"
import type { Principal } from "../../../domain/identity/Principal.ts"
import { countDeleted } from "../countDeleted.ts"
import { deleteFeedback, lockFeedback, withDatasetLockIfNeeded } from "../deleteRuns.ts"
import type { RemovalDeps } from "../RunLog/removeRun.ts"
import { readFeedback } from "./rows.ts"

/** Deletes feedback, and the example that its correction became. */
export const removeFeedback = Effect.fnUntraced(function* (
  { audit, clock, sql, usage }: RemovalDeps,
  principal: Principal,
  id: FeedbackId
) {
  const { org_id } = principal
  const [feedback] = yield* readFeedback(sql, org_id, [id])
  if (feedback === undefined) return yield* notFound("feedback")
  const { task_id, trace_id } = feedback
  const options = { erasesExamples: true, now: yield* clock.now }
  const step = withDatasetLockIfNeeded(
    sql,
    { org_id, task_id },
    Effect.fnUntraced(function* (hasLock) {
      const [locked] = yield* lockFeedback(sql, org_id, sql`feedback_id = ${id}`)
      if (locked === undefined) return yield* notFound("feedback")
      const erased = yield* deleteFeedback(sql, usage, { org_id, task_id }, [locked], options, hasLock)
      if (erased === undefined || erased.more) return erased
      yield* audit.record(principal, "feedback.deleted", id, {
        task_id,
        inference_log_id: trace_id,
        status: locked.status,
        examples: erased.examples
      })
      return erased
    })
  )
  for (;;) {
    const { examples, more } = yield* step
    if (!more) return yield* countDeleted("request", { feedback: 1, examples })
  }
})
