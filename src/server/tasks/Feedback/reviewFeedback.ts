import { Effect, Option, Result } from "effect"
import type { SqlClient } from "effect/sql"
import { FeedbackNotPending, LimitReached, NotFound } from "../../../api/Problems.ts"
import { type FeedbackInput, type FeedbackRefusal, transition } from "../../../domain/tasks/FeedbackState.ts"
import type { FeedbackId } from "../../../domain/Ids.ts"
import type { Principal } from "../../../domain/identity/Principal.ts"
import type { Audit } from "../../identity/Audit.ts"
import { atomic } from "../../store/Database/transaction.ts"
import { inputDigest } from "../Datasets/exampleRows.ts"
import { findRun } from "../Runs/rows.ts"
import type { StoreClock } from "../../store/StoreClock.ts"
import { countStaged } from "./promoteStaged.ts"
import { type FeedbackRow, lockFeedbackForUpdate, toFeedback, writeReview } from "./rows.ts"

/**
 * Corrections of a task that may be staged at a time: more are promoted first. They are counted without a lock, under which a reviewer
 * would wait for a promotion that is under way: those who stage at the same moment may pass the limit by a few.
 */
const MAX_STAGED = 10_000

/** Verdicts on corrections: one goes into the next dataset version, or is rejected. */
export const makeReviews = ({
  audit,
  clock,
  sql
}: {
  readonly sql: SqlClient.SqlClient
  readonly audit: Audit["Service"]
  readonly clock: StoreClock["Service"]
}) => {
  const atomically = atomic(sql)

  /** Holds feedback for a verdict; where that was taken before there is nothing to do. */
  const review = <E, R>(
    principal: Principal,
    id: FeedbackId,
    verdict: FeedbackInput,
    decide: (row: FeedbackRow) => Effect.Effect<FeedbackRow, E, R>
  ) =>
    atomically(
      Effect.gen(function* () {
        const row = yield* lockFeedbackForUpdate(sql, principal.org_id, id)
        if (Option.isNone(row)) return yield* noFeedback
        const next = transition(row.value.status, verdict)
        if (Result.isFailure(next)) return yield* notPending(next.failure, row.value)
        if (next.success === row.value.status) return toFeedback(row.value)
        const reviewed = yield* decide(row.value)
        const { task_id, trace_id } = reviewed
        const action = verdict === "Stage" ? "feedback.staged" : "feedback.rejected"
        yield* audit.record(principal, action, id, { task_id, inference_log_id: trace_id })
        return toFeedback(reviewed)
      })
    )

  return {
    /** The same again changes nothing. */
    stage: (principal: Principal, id: FeedbackId) =>
      review(
        principal,
        id,
        "Stage",
        Effect.fnUntraced(function* (row) {
          const { actor, org_id } = principal
          if ((yield* countStaged(sql, org_id, row.task_id)) >= MAX_STAGED) {
            return yield* new LimitReached({
              detail: `A task has ${MAX_STAGED} staged corrections at most; promote them first`
            })
          }
          const { input } = Option.getOrThrow(yield* findRun(sql, org_id, row.trace_id))
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
      ),
    /** Likewise. `note` holds no protected values. */
    reject: (principal: Principal, id: FeedbackId, note: string | null) =>
      review(
        principal,
        id,
        "Reject",
        Effect.fnUntraced(function* (row) {
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
  }
}

export const noFeedback = Effect.fail(
  new NotFound({ detail: "There is no such feedback in this organization" })
)

const notPending = (refusal: FeedbackRefusal, { status }: FeedbackRow) =>
  Effect.fail(
    new FeedbackNotPending({
      detail:
        refusal === "NoCorrection"
          ? "There is no correction to review: the feedback is a score alone"
          : `The correction is ${status}; nothing has changed`
    })
  )
