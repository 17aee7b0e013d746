import { DateTime, Duration, Effect, Result } from "effect"
import { amountBand } from "../../../domain/approvals/Reviewer/amountBand.ts"
import { compileTextPattern } from "../../../domain/approvals/CompiledRules/compileTextPattern.ts"
import { ApprovalId, type OrgId, type TaskId } from "../../../domain/Ids.ts"
import type { NewAnswer } from "./answerRows.ts"
import type { AskedReviewer, ReviewerFailed, ReviewerReply } from "./askModel.ts"
import type { ReviewedStep } from "./readInput.ts"
import { type ReviewerLease, type ReviewerRow, type ReviewerStore, saveProgress } from "./rows.ts"
import { PAGE_APPROVALS, readApprovalStep, readUnanswered } from "./shadowRows.ts"

/** Steps of one reviewer about which its model is asked at once. */
const CONCURRENCY = 4

/** Steps about which the model is asked before progress is stored, and the time in which the last of them is begun. */
const BATCH = 32
const BATCH_TIME = Duration.seconds(60)

/** Failures in a row after which a model is left alone for a while: those steps are not asked about again. */
const MAX_FAILURES = 4

/** Time limit of a model for an answer that no step waits for. */
const SHADOW_TIMEOUT = Duration.seconds(60)

/** Ids are in the order of the requests, and approvals are committed in another order: approvals of this time are looked for again. */
const OVERLAP = Duration.seconds(10)

/** The work of one claim. */
export interface ShadowRun {
  /** Answers that were stored. */
  readonly answered: number
  /** Requests that the provider left without an answer. */
  readonly failed: number
  /** Whether the last of them failed. */
  readonly isFailing: boolean
  /** Whether all approvals were looked at. */
  readonly isOver: boolean
}

/** The dependencies of the work. */
export interface ShadowDeps extends ReviewerStore {
  readonly ask: (
    reviewer: AskedReviewer,
    step: ReviewedStep,
    timeout: Duration.Duration
  ) => Effect.Effect<ReviewerReply, ReviewerFailed>
  readonly record: (answer: NewAnswer) => Effect.Effect<boolean>
  readonly compare: (org_id: OrgId, task_id: TaskId) => Effect.Effect<number>
}

/**
 * Asks the model of a claimed reviewer about the next approvals, and compares its answers with the decisions that were made since. A request
 * beyond the limits of the day is left out for good.
 */
export const doShadowWork = Effect.fnUntraced(function* (
  deps: ShadowDeps,
  lease: ReviewerLease,
  row: ReviewerRow
) {
  const { ask, clock, compare, record, sql } = deps
  const { amount, org_id, task_id } = row
  const patterns = row.tools.map(compileTextPattern)
  const began = yield* clock.now
  const compared_at = DateTime.subtractDuration(began, OVERLAP)
  const idWatermark = ApprovalId.lowerBound(compared_at)
  const until = DateTime.addDuration(began, BATCH_TIME)
  let isUsedUp = false
  let asked = 0
  let answered = 0
  let failed = 0
  let failedInARow = 0
  const mayGoOn = Effect.map(
    clock.now,
    (now) => asked < BATCH && failedInARow < MAX_FAILURES && DateTime.isLessThan(now, until)
  )

  const review = Effect.fnUntraced(function* (approval_id: ApprovalId) {
    if (isUsedUp) return
    const step = yield* readApprovalStep(sql, org_id, approval_id)
    if (step === undefined) return
    const reply = yield* Effect.result(ask({ org_id, task_id }, step, SHADOW_TIMEOUT))
    if (Result.isFailure(reply)) {
      const { reason } = reply.failure
      if (reason === "limit_used_up") isUsedUp = true
      if (reason === "limit_used_up" || reason === "unknown_reviewer") return
      if (reason === "provider_failed" || reason === "timed_out") {
        failed++
        failedInARow++
      }
    } else failedInARow = 0
    const { calls, dataset_id, decision, reason, release_id, tokens } = Result.match(reply, {
      onSuccess: (given) => given,
      onFailure: ({ calls, dataset_id, detail, release_id, tokens }) => ({
        ...{ calls, dataset_id, release_id, tokens },
        decision: null,
        reason: detail
      })
    })
    const isStored = yield* record({
      org_id,
      task_id,
      release_id: release_id ?? row.release_id,
      dataset_id,
      session_id: step.session_id,
      step_id: step.step_id,
      approval_id,
      tool: step.tool,
      band: amountBand(amount, step.arguments),
      mode: "shadow",
      decision,
      reason,
      calls,
      tokens,
      requested_at: step.requested_at,
      created_at: yield* clock.now
    })
    if (isStored) answered++
  })

  yield* compare(org_id, task_id)
  let after = row.last_approval_id
  let isOver = false
  while (!isOver && (yield* mayGoOn)) {
    const page = yield* readUnanswered(sql, org_id, task_id, after)
    const watched = page.filter(({ tool }) => patterns.some((matches) => matches(tool)))
    let done = 0
    while (done < watched.length && (yield* mayGoOn)) {
      const next = watched.slice(done, done + CONCURRENCY)
      yield* Effect.forEach(next, ({ approval_id }) => review(approval_id), {
        concurrency: CONCURRENCY,
        discard: true
      })
      done += next.length
      asked += next.length
    }
    isOver = page.length < PAGE_APPROVALS && done === watched.length
    after = (done < watched.length ? watched[done - 1] : page.at(-1))?.approval_id ?? after
  }
  yield* saveProgress(deps, lease, {
    last_approval_id: isOver || after > idWatermark ? idWatermark : after,
    compared_at
  })
  const run: ShadowRun = { answered, failed, isFailing: failedInARow > 0, isOver }
  return run
})
