import { Effect, Result } from "effect"
import type { SqlClient } from "effect/sql"
import { notFound } from "../../../api/notFound.ts"
import { FeedbackNotPending, LimitReached } from "../../../api/Problems.ts"
import { type FeedbackInput, type FeedbackRefusal, transition } from "../../../domain/tasks/FeedbackState.ts"
import type { FeedbackId } from "../../../domain/Ids.ts"
import type { Principal } from "../../../domain/identity/Principal.ts"
import type { Audit } from "../../identity/Audit.ts"
import { atomic } from "../../store/transaction.ts"
import type { StoreClock } from "../../store/StoreClock.ts"
import { inputDigest } from "../Datasets/exampleRows.ts"
import { getRun } from "../Runs/rows.ts"
import { type FeedbackRow, lockFeedbackForUpdate, toFeedback, writeReview } from "./rows.ts"
import { countStaged } from "./stagedRows.ts"

/**
 * Staged corrections of one task. Counted without a lock, because with one a reviewer would wait for a running promotion; concurrent
 * reviewers may exceed the limit by a few.
 */
const MAX_STAGED = 10_000

/** The services that a review needs. */
export interface ReviewDeps {
  readonly sql: SqlClient.SqlClient
  readonly audit: Audit["Service"]
  readonly clock: StoreClock["Service"]
}

/** Stages a correction for the next dataset version. Idempotent. */
export const stageFeedback = (deps: ReviewDeps, principal: Principal, id: FeedbackId) =>
  reviewFeedback(
    deps,
    principal,
    id,
    "Stage",
    Effect.fnUntraced(function* (row) {
      const { clock, sql } = deps
      const { actor, org_id } = principal
      if ((yield* countStaged(sql, org_id, row.task_id)) >= MAX_STAGED) {
        return yield* new LimitReached({
          detail: `A task can have at most ${MAX_STAGED} staged corrections. Promote them first.`
        })
      }
      const { input } = yield* getRun(sql, org_id, row.trace_id)
      return yield* writeReview(sql, org_id, row, {
        status: "staged",
        at: yield* clock.now,
        by: actor,
        note: null,
        input: {
          digest: inputDigest(row.task_id, input),
          bytes: Buffer.byteLength(JSON.stringify(input))
        }
      })
    })
  )

/** Rejects a correction. Idempotent. The caller has redacted the note. */
export const rejectFeedback = (deps: ReviewDeps, principal: Principal, id: FeedbackId, note: string | null) =>
  reviewFeedback(
    deps,
    principal,
    id,
    "Reject",
    Effect.fnUntraced(function* (row) {
      const { clock, sql } = deps
      const { actor, org_id } = principal
      return yield* writeReview(sql, org_id, row, {
        status: "rejected",
        at: yield* clock.now,
        by: actor,
        note,
        input: null
      })
    })
  )

/** Locks feedback and applies a verdict, unless the same verdict was applied before. */
const reviewFeedback = <E, R>(
  { audit, sql }: ReviewDeps,
  principal: Principal,
  id: FeedbackId,
  verdict: FeedbackInput,
  apply: (row: FeedbackRow) => Effect.Effect<FeedbackRow, E, R>
) =>
  Effect.gen(function* () {
    const row = yield* lockFeedbackForUpdate(sql, principal.org_id, id)
    if (row === undefined) return yield* notFound("feedback")
    const next = transition(row.status, verdict)
    if (Result.isFailure(next)) return yield* notPending(next.failure, row)
    if (next.success === row.status) return toFeedback(row)
    const reviewed = yield* apply(row)
    const { task_id, trace_id } = reviewed
    const action = verdict === "Stage" ? "feedback.staged" : "feedback.rejected"
    yield* audit.record(principal, action, id, { task_id, inference_log_id: trace_id })
    return toFeedback(reviewed)
  }).pipe(atomic(sql))

const notPending = (refusal: FeedbackRefusal, { status }: FeedbackRow) =>
  Effect.fail(
    new FeedbackNotPending({
      detail:
        refusal === "NoCorrection"
          ? "This feedback has no correction to review."
          : `The correction is already ${status}. This request changed nothing.`
    })
  )
