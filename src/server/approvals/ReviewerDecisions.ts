import { Cause, Context, Duration, Effect, Layer, Option } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { randomInt } from "node:crypto"
import { Authorized } from "../../api/Authorization.ts"
import { notFound } from "../../api/notFound.ts"
import { NotFound } from "../../api/Problems.ts"
import type { ReviewerAnswer } from "../../domain/approvals/Reviewer.ts"
import type { Ruling } from "../../domain/approvals/ApprovalRule.ts"
import { compileTextPattern } from "../../domain/approvals/CompiledRules/compileTextPattern.ts"
import {
  decisionOfAnswer,
  hasEarnedSome,
  reasonNotToAsk,
  termsOf
} from "../../domain/approvals/Reviewer/reviewerDecision.ts"
import { countAnswers } from "../../domain/approvals/Reviewer/countAnswers.ts"
import {
  RECENT_APPROVALS,
  reviewerStanding,
  type StandingFault
} from "../../domain/approvals/Reviewer/reviewerStanding.ts"
import type { RuleReviewer } from "../../domain/approvals/RuleReviewer.ts"
import { renderSummary } from "../../domain/approvals/SummaryTemplate.ts"
import {
  type ApprovalId,
  type OrgId,
  ReviewerAnswerId,
  type SessionId,
  type StepId,
  type TaskId
} from "../../domain/Ids.ts"
import type { Principal } from "../../domain/identity/Principal.ts"
import type { Timestamp } from "../../domain/Time.ts"
import { monotonicNow } from "../concurrency/monotonicMillis.ts"
import { dieOnDatabaseError } from "../store/databaseErrors.ts"
import { atomic } from "../store/transaction.ts"
import { KeyedBudget } from "../admission/KeyedBudget.ts"
import { Audit } from "../identity/Audit.ts"
import { logFailure } from "../observability/DatabaseOutage.ts"
import { StoreClock } from "../store/StoreClock.ts"
import { hasRow } from "../store/rows.ts"
import { type MeasuredReviewer, readDecided } from "./ReviewerDecisions/decidedRows.ts"
import { MAX_REFUSALS, readFacts } from "./ReviewerDecisions/facts.ts"
import { Reviewers } from "./Reviewers.ts"
import type { ReviewerReply } from "./Reviewers/askModel.ts"
import { markWrong } from "./ReviewerDecisions/markWrong.ts"
import { findReviewerAnswer, readCounts } from "./Reviewers/answerRows.ts"
import { findReviewer } from "./Reviewers/rows.ts"
import { Rules } from "./Rules.ts"
import type { StepReview } from "./SessionWriter/SessionWrite.ts"
import type { ModelDecision, StepOfTask, StepTexts } from "./Steps/newStep.ts"

/** Longest time that an agent waits for a model before a person is asked. */
const MAX_WAIT = Duration.seconds(5)

/** Steps of one organization that wait for a model at once, on each replica. People decide further ones. */
const MAX_WAITING_STEPS = 16

/** Requests in a row without an answer after which a model no longer decides. */
const MAX_FAILURES = 5

/** Numbers that are drawn for the sample: more than enough for any share. */
const DRAWS = 2 ** 32

/**
 * Draws a number from 0 to below 1 for each answer that may decide: below the rule's `sample`, people decide. No agent can predict the
 * default. Tests replace it.
 */
export const SampleDraw = Context.Reference<() => number>(
  "countersign/server/approvals/ReviewerDecisions/SampleDraw",
  { defaultValue: () => () => randomInt(DRAWS) / DRAWS }
)

/** A new step that a rule with a reviewer matches. */
export interface ReviewRequest {
  readonly principal: Principal
  readonly session_id: SessionId
  readonly step: StepOfTask
  readonly texts: StepTexts
  readonly ruling: Ruling
  readonly now: Timestamp
}

/** The answer of a reviewer model about a new step. */
export interface ReviewedAnswer extends MeasuredReviewer {
  readonly tool: string
  readonly band: number
  /** The part of the rule under which it was asked. */
  readonly rule: RuleReviewer
  readonly reply: ReviewerReply
  /** The decision that the answer makes, and the values stored with it; undefined: people decide. */
  readonly decided: { readonly model: ModelDecision; readonly review: StepReview } | undefined
}

/** Lets reviewer models decide steps while they have earned it, and ends their right when they lose it. */
export class ReviewerDecisions extends Context.Service<
  ReviewerDecisions,
  {
    /**
     * Asks the reviewer of the rule that matches a new step. Undefined: people decide, because the reviewer may not decide it, or gives no
     * answer in time. No database connection is held while the model answers.
     */
    readonly ask: (request: ReviewRequest) => Effect.Effect<ReviewedAnswer | undefined>
    /**
     * Whether an answer may still decide, if `current` is the reviewer of the step's rule now. Locks the reviewer in the caller's transaction,
     * so that a stop comes before or after it.
     */
    readonly confirm: (answered: ReviewedAnswer, current: RuleReviewer | undefined) => Effect.Effect<boolean>
    /** Stores the answer about a step that waits for people, so that the model is not asked about it again. */
    readonly record: (
      answered: ReviewedAnswer,
      step: {
        readonly session_id: SessionId
        readonly step_id: StepId
        readonly approval_id: ApprovalId
        readonly requested_at: Timestamp
      }
    ) => Effect.Effect<void>
    /** Records that a person would have decided otherwise, and stops the reviewer. Idempotent. */
    readonly markWrong: (
      task_id: TaskId,
      answer_id: ReviewerAnswerId
    ) => Effect.Effect<ReviewerAnswer, NotFound, Authorized<"approvals.decide">>
    /**
     * Compares decisions of people about a tool with the answers of reviewers, and stops reviewers that have lost their right by it. A failure
     * is logged: the decision is committed, and its request must be answered with it. The next answer of the reviewer is compared anyway.
     */
    readonly check: (org_id: OrgId, tool: string) => Effect.Effect<void>
  }
>()("countersign/server/approvals/ReviewerDecisions") {
  static readonly layer = Layer.effect(
    ReviewerDecisions,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const clock = yield* StoreClock
      const audit = yield* Audit
      const rules = yield* Rules
      const reviewers = yield* Reviewers
      const draw = yield* SampleDraw
      const store = { sql, clock }
      const atomically = atomic(sql)
      const waiting = new KeyedBudget<OrgId>({ perKey: MAX_WAITING_STEPS })
      // Calls of one tool in one session at once, or an agent could send variants in parallel before the first answer is stored.
      const tried = new KeyedBudget<string>({ perKey: MAX_REFUSALS })

      /** Stops a reviewer that has made decisions of a kind for which it no longer has the standing. Returns whether it did. */
      const stopIfLost = Effect.fnUntraced(function* (
        reviewer: MeasuredReviewer,
        tool: string,
        standingOf: (
          band: number
        ) => Effect.Effect<Record<"approve" | "reject", StandingFault | null>, SqlError.SqlError>
      ) {
        for (const { answer, band } of yield* readDecided(sql, reviewer, tool)) {
          const fault = (yield* standingOf(band))[answer]
          if (fault === null) continue
          const { org_id, task_id } = reviewer
          yield* reviewers.stopReviewer(org_id, task_id, fault === "fallen" ? "fallen" : "bound_lost")
          return true
        }
        return false
      })

      const ask = Effect.fn("ReviewerDecisions.ask")(function* (
        { now, principal, ruling, session_id, step, texts }: ReviewRequest,
        rule: RuleReviewer
      ) {
        const { actor, org_id, scopes } = principal
        const { task_id } = rule
        const { action_class, step_id, tool } = step
        const { argumentsJson } = texts
        const facts = yield* readFacts(sql, {
          org_id,
          session_id,
          step_id,
          task_id: step.task_id,
          tool,
          action_class,
          argumentsJson,
          requested_by_id: actor.id,
          now
        })
        // A saved step keeps its decision. No reviewer decides in the work of another one.
        if (facts === undefined || facts.is_saved || facts.is_reviewers) return undefined
        const notAsked = reasonNotToAsk({
          ruling,
          isPersons: facts.is_persons || scopes.has("approvals.decide"),
          mayHaveAdvance: facts.may_have_advance,
          isRepeated: facts.is_repeated,
          size: argumentsJson?.length ?? 0
        })
        if (notAsked !== null) return undefined
        const began = yield* monotonicNow
        const right = yield* reviewers
          .rightOf(org_id, task_id, { tool, arguments: step.arguments })
          .pipe(Effect.timeoutOrElse({ duration: MAX_WAIT, orElse: () => Effect.undefined }))
        if (right?.state !== "watching" || right.band < 0 || !right.tools.some(matches(tool)))
          return undefined
        const { band, counts, dataset_id, generation, release_id } = right
        const reviewer = { org_id, task_id, release_id, live_dataset_id: dataset_id }
        const standing = reviewerStanding(counts, termsOf(rule))
        if (standing.approve !== null || standing.reject !== null) {
          const isStopped = yield* stopIfLost(reviewer, tool, (other) =>
            Effect.succeed(other === band ? standing : { approve: null, reject: null })
          )
          if (isStopped || !hasEarnedSome(standing)) return undefined
        }
        const reply = yield* Effect.option(
          reviewers.askReviewer(
            { org_id, task_id },
            {
              org_id,
              session_id,
              step_id,
              tool,
              action_class,
              arguments: step.arguments,
              agent_summary: step.summary ?? null,
              rule_summary:
                ruling.summary === undefined ? null : renderSummary(ruling.summary, step.arguments),
              reason: ruling.reason,
              requested_at: now
            },
            Duration.subtract(MAX_WAIT, Duration.millis((yield* monotonicNow) - began))
          )
        )
        if (Option.isNone(reply)) {
          const row = yield* findReviewer(store, org_id, task_id)
          if (row !== undefined && row.failures >= MAX_FAILURES)
            yield* reviewers.stopReviewer(org_id, task_id, "provider_failed")
          return undefined
        }
        const { calls, decision, reason, tokens } = reply.value
        const answered: ReviewedAnswer = {
          ...reviewer,
          tool,
          band,
          rule,
          reply: reply.value,
          decided: undefined
        }
        // Another release may have become live before it was asked, or the first one may have got its examples.
        if (reply.value.release_id !== release_id || reply.value.dataset_id !== dataset_id) return answered
        const made = decisionOfAnswer(standing, decision, draw() < rule.sample)
        if (made === undefined) return answered
        const answer_id = yield* ReviewerAnswerId.generateAt(yield* clock.now)
        const entry = yield* audit.prepare(
          { org_id, actor: null },
          made === "allow" ? "step.approved_by_model" : "step.rejected_by_model",
          answer_id,
          { session_id, step_id, tool, task_id, release_id }
        )
        const decided = {
          model: { decision: made, reviewer: { task_id, release_id, reason } },
          review: { answer_id, task_id, dataset_id, generation, band, calls, tokens, audit: entry }
        }
        return { ...answered, decided }
      })

      const checkAll = Effect.fn("ReviewerDecisions.check")(function* (
        org_id: OrgId,
        tool: string,
        asked: ReadonlyArray<RuleReviewer>
      ) {
        for (const rule of asked) {
          const found = yield* findReviewer(store, org_id, rule.task_id)
          if (found?.state !== "watching") continue
          yield* reviewers.compare(org_id, rule.task_id)
          yield* stopIfLost(found, tool, (band) =>
            Effect.map(
              readCounts(sql, found, { group: { tool, band }, weeksSince: null, recent: RECENT_APPROVALS }),
              ({ counted, newest }) =>
                reviewerStanding(countAnswers(counted, newest[0]).counts, termsOf(rule))
            )
          )
        }
      }, Effect.orDie)

      return ReviewerDecisions.of({
        ask: (request) =>
          Effect.suspend(() => {
            const { org_id } = request.principal
            const { reviewer } = request.ruling
            const calls = `${org_id} ${request.session_id} ${request.step.tool}`
            if (reviewer === undefined || !waiting.fits(org_id) || !tried.fits(calls)) return Effect.undefined
            waiting.take(org_id)
            tried.take(calls)
            return Effect.ensuring(
              // Whatever fails, people decide.
              Effect.catchCause(Effect.orDie(ask(request, reviewer)), (cause) =>
                Cause.hasInterruptsOnly(cause)
                  ? Effect.failCause(cause)
                  : Effect.as(Effect.logError("A reviewer could not be asked", cause), undefined)
              ),
              Effect.sync(() => {
                waiting.giveBack(org_id)
                tried.giveBack(calls)
              })
            )
          }),
        confirm: Effect.fnUntraced(function* ({ decided, org_id, rule, task_id }, current) {
          // The rules may have changed meanwhile, and with them the bounds.
          if (decided === undefined || JSON.stringify(rule) !== JSON.stringify(current)) return false
          return yield* hasRow(sql`
            SELECT 1 AS found
            FROM reviewers
            WHERE org_id = ${org_id}
              AND task_id = ${task_id}
              AND state = 'watching'
              AND generation = ${decided.review.generation}
            FOR SHARE
          `)
        }, Effect.orDie),
        record: (
          { band, org_id, reply, task_id, tool },
          { approval_id, requested_at, session_id, step_id }
        ) =>
          clock.now.pipe(
            Effect.flatMap((created_at) =>
              reviewers.record({
                org_id,
                task_id,
                release_id: reply.release_id,
                dataset_id: reply.dataset_id,
                tool,
                band,
                session_id,
                step_id,
                approval_id,
                requested_at,
                mode: "shadow",
                decision: reply.decision,
                reason: reply.reason,
                calls: reply.calls,
                tokens: reply.tokens,
                created_at
              })
            ),
            // Without it the model is asked once more, beside people.
            Effect.catchCause((cause) => Effect.logWarning("The answer of a reviewer was not stored", cause)),
            Effect.asVoid
          ),
        markWrong: Effect.fn("ReviewerDecisions.markWrong")(function* (task_id, answer_id) {
          const principal = yield* Authorized("approvals.decide")
          const { actor, org_id } = principal
          const reviewer = yield* findReviewer(store, org_id, task_id)
          if (reviewer === undefined) return yield* notFound("reviewer")
          return yield* atomically(
            Effect.gen(function* () {
              const answer = yield* findReviewerAnswer(sql, org_id, task_id, answer_id, reviewer.amount)
              if (answer?.mode !== "decided") return yield* noDecision
              if (!(yield* markWrong(store, org_id, task_id, answer_id, actor))) return answer
              yield* audit.record(principal, "reviewer.decision_marked_wrong", answer_id, {
                task_id,
                session_id: answer.session_id,
                step_id: answer.step_id
              })
              yield* reviewers.stopReviewer(org_id, task_id, "reversed")
              return (yield* findReviewerAnswer(sql, org_id, task_id, answer_id, reviewer.amount)) ?? answer
            })
          )
        }, dieOnDatabaseError),
        check: (org_id, tool) =>
          Effect.flatMap(rules.cached(org_id), ({ rules: list }) => {
            const asked = list.flatMap(({ reviewer, tool: pattern }) =>
              reviewer !== null && matches(tool)(pattern) ? [reviewer] : []
            )
            return asked.length === 0 ? Effect.void : checkAll(org_id, tool, asked)
          }).pipe(
            Effect.catchCause((cause) =>
              Cause.hasInterruptsOnly(cause)
                ? Effect.failCause(cause)
                : logFailure("Could not compare a reviewer with a decision", cause)
            )
          )
      })
    })
  )
}

const noDecision = Effect.fail(
  new NotFound({
    detail: "The reviewer has made no such decision. Only decisions of the model can be wrong."
  })
)

const matches =
  (tool: string) =>
  (pattern: string): boolean =>
    compileTextPattern(pattern)(tool)
