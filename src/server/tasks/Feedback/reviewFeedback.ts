import { Effect, Result } from "effect"
import type { SqlClient } from "effect/sql"
import { notFound } from "../../../api/notFound.ts"
import { FeedbackNotPending, LimitReached, SelfReview } from "../../../api/Problems.ts"
import { isOwnRequest } from "../../../domain/approvals/ApprovalState.ts"
import { type FeedbackRefusal, transition } from "../../../domain/tasks/FeedbackState.ts"
import type { FeedbackId, OrgId } from "../../../domain/Ids.ts"
import type { Principal } from "../../../domain/identity/Principal.ts"
import type { KnownValues } from "../../../domain/redaction/Redaction.ts"
import type { Audit } from "../../identity/Audit.ts"
import { dieOnDatabaseError } from "../../store/databaseErrors.ts"
import { atomic } from "../../store/transaction.ts"
import type { StoreClock } from "../../store/StoreClock.ts"
import { inputDigest } from "../Datasets/exampleRows.ts"
import { redactObject } from "../redactJson.ts"
import { findLoggedRun } from "../Runs/rows.ts"
import {
  type CorrectedInput,
  type FeedbackRow,
  lockFeedbackForUpdate,
  readFeedback,
  toFeedback,
  writeReview
} from "./rows.ts"
import { allowsSelfReview, countStaged } from "./stagedRows.ts"

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

/**
 * Reads the input of a correction that can be staged, before the transaction that stages it, because redaction of a large input takes long.
 * Undefined if the feedback cannot be staged.
 */
export const readCorrectedInput = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  id: FeedbackId,
  known: KnownValues
) {
  const [row] = yield* readFeedback(sql, org_id, [id])
  if (row?.status !== "pending" && row?.status !== "staged") return
  const run = yield* findLoggedRun(sql, org_id, row.trace_id)
  if (run === undefined) return yield* notFound("feedback")
  const { input } = run
  const { value } = yield* redactObject(input, known, "#/input")
  const corrected: CorrectedInput = {
    digest: inputDigest(row.task_id, value),
    bytes: Buffer.byteLength(JSON.stringify(input))
  }
  return corrected
}, dieOnDatabaseError)

/** Stages a correction for the next dataset version, with the input from `readCorrectedInput`. Idempotent. */
export const stageFeedback = (
  deps: ReviewDeps,
  principal: Principal,
  id: FeedbackId,
  input: CorrectedInput | undefined
) =>
  reviewFeedback(
    deps,
    principal,
    id,
    "Stage",
    Effect.fnUntraced(function* (row) {
      const { clock, sql } = deps
      const { actor, org_id } = principal
      const submitter = row.created_by_id
      if (isOwnRequest(submitter, principal) && !(yield* allowsSelfReview(sql, org_id, row.task_id))) {
        return yield* new SelfReview({
          detail:
            "The key that submitted this correction cannot stage it, nor can a key that it created. Use another person's key."
        })
      }
      if ((yield* countStaged(sql, org_id, row.task_id)) >= MAX_STAGED) {
        return yield* new LimitReached({
          detail: `A task can have at most ${MAX_STAGED} staged corrections. Promote them first.`
        })
      }
      return yield* writeReview(sql, org_id, row, {
        status: "staged",
        verdict: { at: yield* clock.now, by: actor },
        note: null,
        // A correction that was rejected when its input was read stays rejected.
        input: input ?? (yield* Effect.die(new Error(`The input of ${id} was not read`)))
      })
    })
  )

/** Undoes the staging of a correction that was not promoted; it is pending again. Idempotent. */
export const unstageFeedback = (deps: ReviewDeps, principal: Principal, id: FeedbackId) =>
  reviewFeedback(deps, principal, id, "Unstage", (row) =>
    writeReview(deps.sql, principal.org_id, row, {
      status: "pending",
      verdict: null,
      note: null,
      input: null
    })
  )

/** Rejects a correction that was not promoted. Idempotent. The caller has redacted the note. */
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
        verdict: { at: yield* clock.now, by: actor },
        note,
        input: null
      })
    })
  )

const actions = {
  Stage: "feedback.staged",
  Unstage: "feedback.unstaged",
  Reject: "feedback.rejected"
} as const

/** Locks feedback and applies a verdict, unless the same verdict was applied before. */
const reviewFeedback = <E, R>(
  { audit, sql }: ReviewDeps,
  principal: Principal,
  id: FeedbackId,
  verdict: keyof typeof actions,
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
    yield* audit.record(principal, actions[verdict], id, { task_id, inference_log_id: trace_id })
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
