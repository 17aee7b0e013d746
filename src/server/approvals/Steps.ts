import { Context, Effect, Layer, Metric, Option } from "effect"
import { SqlClient } from "effect/sql"
import type { OutcomeReport, StepRequest } from "../../api/AgentSessions.ts"
import { Authorized } from "../../api/Authorization.ts"
import { notFound } from "../../api/notFound.ts"
import type { InvalidRequest, NotFound } from "../../api/Problems.ts"
import type { GovernedStep, StepOutcome } from "../../domain/approvals/AgentSession.ts"
import { savedBudgets } from "../../domain/approvals/BudgetMeter.ts"
import { transition as transitionExecution } from "../../domain/approvals/Execution.ts"
import type { ExecutionRecord } from "../../domain/approvals/Execution.ts"
import { executionEvents, stepGovernedEvent, toolOutcomeEvent } from "../../domain/approvals/SessionEvent.ts"
import { currentDecision } from "../../domain/approvals/StepDecision.ts"
import type { OrgId, SessionId, StepId, TaskId } from "../../domain/Ids.ts"
import { redactText } from "../../domain/redaction/Redaction.ts"
import type { Principal } from "../../domain/identity/Principal.ts"
import type { Timestamp } from "../../domain/Time.ts"
import { nextTurn, yieldingOnly } from "../admission/LoopTurns.ts"
import { KnownSecrets } from "../secrets/KnownSecrets.ts"
import { StoredUsage } from "../identity/StoredUsage.ts"
import { reviewerAnswers } from "../observability/metricDefinitions.ts"
import { StoreClock } from "../store/StoreClock.ts"
import { Spans } from "../telemetry/Spans.ts"
import {
  claimExecution,
  type ClaimOptions,
  claimOptions,
  countUnknown,
  makeClaimSaved,
  refuseClaim
} from "./Claims/claimSaved.ts"
import { BudgetCounters } from "./BudgetCounters.ts"
import { listMessages } from "./messageRows.ts"
import { ReviewerDecisions, type ReviewedAnswer } from "./ReviewerDecisions.ts"
import { Rules } from "./Rules.ts"
import { SessionFacts } from "./SessionFacts.ts"
import { type ResumedStep, SessionWriter, type StepKey } from "./SessionWriter.ts"
import { type LockedSession, lockSessionForUpdate } from "./Sessions/rows.ts"
import { makeRequestTexts, newStep, type RequestTexts, type StepOfTask } from "./Steps/newStep.ts"
import { makeTakeAdvance } from "./Steps/takeAdvance.ts"
import { outcomeOf } from "./Steps/outcomeOf.ts"
import { readArguments } from "./Steps/rows.ts"
import { makeSavedSteps } from "./Steps/savedSteps.ts"
import { outcomeBytes, stepBytes } from "./Steps/storedBytes.ts"
import { Tickets } from "./Tickets.ts"
import { recordOutcomeSpan, recordStepSpan } from "./Steps/spans.ts"
import {
  alreadyCompleted,
  type CheckStepError,
  claimMismatch,
  claimMissing,
  type CompleteStepError,
  requireSameContent,
  requireTaskOfStep,
  sessionClosed,
  stepNotAllowed,
  stepNotFound
} from "./Steps/stepRefusals.ts"

export type { CheckStepError, CompleteStepError } from "./Steps/stepRefusals.ts"

/** How one request of a step is made. */
export interface CheckOptions {
  /** With it a claim can be repeated by the same request. */
  readonly idempotency_key?: string | undefined
  /** The last message about the approval that the agent has seen. Default: its last answer. */
  readonly after_message?: number | undefined
}

/** A request of a step. What was prepared for it is kept for the transaction that may have to follow. */
interface StepCheck {
  readonly principal: Principal
  readonly key: StepKey
  readonly step: StepRequest
  readonly after_message: number | undefined
  /** Undefined: it makes no claim. */
  readonly claim: ClaimOptions | undefined
  /** Whether the session is the key's own, so that its proposals and grants count. */
  readonly isOwn: boolean
  readonly texts: RequestTexts
  /** The answer of a reviewer model. */
  answered: ReviewedAnswer | undefined
}

/** Governed steps: an agent requests a decision before each action. */
export class Steps extends Context.Service<
  Steps,
  {
    /**
     * Allows or rejects a step by the organization's rules, or makes it wait for an approval. A step has one approval however often and
     * concurrently it is requested. Repeating the call resumes the step: it returns the current decision, for which the rules are
     * evaluated again, because a rule that rejects now overrides an approval. With `claim`, an allowed step is claimed in the same statement;
     * a step that is claimed gets no further `allow`, until a person allows another attempt.
     */
    readonly check: (
      session_id: SessionId,
      step: StepRequest,
      options?: CheckOptions
    ) => Effect.Effect<GovernedStep, CheckStepError, Authorized<"sessions.write">>
    /** Records the outcome of an allowed step, once. */
    readonly complete: (
      session_id: SessionId,
      step_id: StepId,
      report: OutcomeReport
    ) => Effect.Effect<StepOutcome, CompleteStepError, Authorized<"sessions.write">>
  }
>()("countersign/server/approvals/Steps") {
  static readonly layer = Layer.effect(
    Steps,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const clock = yield* StoreClock
      const rules = yield* Rules
      const budgets = yield* BudgetCounters
      const reviews = yield* ReviewerDecisions
      const spans = yield* Spans
      const facts = yield* SessionFacts
      const writer = yield* SessionWriter
      const usage = yield* StoredUsage
      const secrets = yield* KnownSecrets
      const takeAdvance = makeTakeAdvance(sql)
      const { approvalOf, withoutPassedWindows } = makeSavedSteps(sql, spans, writer)
      const claimSaved = makeClaimSaved(sql, writer)
      const tickets = yield* Tickets

      /** The answer with the claim that the request made; null: it made none. */
      const withClaim = (
        key: StepKey,
        { action_class, tool }: Pick<StepRequest, "action_class" | "tool">,
        answer: GovernedStep,
        execution: ExecutionRecord | null
      ): GovernedStep => {
        if (execution === null) return answer
        const { arguments_digest, decision_source, step_id } = answer
        const step = { step_id, tool, action_class, arguments_digest }
        return { ...answer, claim: tickets.claimOf(key, step, decision_source, execution) }
      }

      /** The step with the task whose rules apply to it; undefined if the session does not exist, or the task is refused. */
      const withTask = Effect.fnUntraced(function* (
        { org_id }: Principal,
        session_id: SessionId,
        step: StepRequest
      ) {
        const session = yield* facts.find(org_id, session_id)
        if (session === undefined) return undefined
        return yield* Effect.orElseSucceed(stepOfTask(org_id, session, step), () => undefined)
      })

      /** An omitted task is the session's, so that the rules of that task still apply. */
      const stepOfTask = (
        org_id: OrgId,
        session: { readonly task_id: TaskId | null },
        step: StepRequest
      ): Effect.Effect<StepOfTask, InvalidRequest | NotFound> => {
        const task_id = step.task_id ?? session.task_id
        return Effect.as(requireTaskOfStep(sql, org_id, session.task_id, task_id), { ...step, task_id })
      }

      const lockSession = ({ org_id }: Principal, session_id: SessionId) =>
        Effect.flatMap(Effect.orDie(lockSessionForUpdate(sql, org_id, session_id)), (session) =>
          Option.isNone(session) ? notFound("session") : Effect.succeed(session.value)
        )

      /** Decides and saves a step, or resumes a saved one. `session` is locked. Undefined: it needs the session's lock. */
      const checkWith = Effect.fnUntraced(function* (request: StepCheck, session: LockedSession | undefined) {
        const { claim, isOwn, key, principal, step: submitted } = request
        const { org_id, session_id } = key
        if (session?.closed === true) return yield* sessionClosed
        const isLocked = session !== undefined
        const saved = yield* isLocked ? writer.findStep(key) : writer.findWaitingStep(key)
        if (saved !== undefined) return yield* resume(request, saved, isLocked)
        const step = yield* isLocked
          ? stepOfTask(org_id, session, submitted)
          : withTask(principal, session_id, submitted)
        if (step === undefined) return undefined
        const list = yield* isLocked ? rules.current(org_id) : rules.cached(org_id)
        const known = yield* request.texts.all
        let now = yield* clock.now
        const by = { org_id, session_id, key_id: principal.actor.id, now }
        const ruled = yield* budgets.rule(list, { ...step, arguments: submitted.arguments }, by, isLocked)
        // Proposals and grants are for the session's own keys, also if other keys take part in it.
        const advance =
          isLocked && isOwn
            ? yield* takeAdvance(principal, session_id, submitted, session, ruled.ruling, now)
            : {}
        let decided: ReviewedAnswer["decided"]
        if (ruled.ruling.reviewer !== undefined) {
          // A model is asked before the session is locked, and at most once for a request.
          if (!isLocked) {
            const { ruling } = ruled
            request.answered = yield* reviews.ask({ principal, session_id, step, texts: known, ruling, now })
            now = yield* clock.now
          }
          const needsModel = advance.proposal === undefined && advance.grant === undefined
          const { answered } = request
          if (answered !== undefined && needsModel) {
            const stillDecides = !isLocked || (yield* reviews.confirm(answered, ruled.ruling.reviewer))
            if (stillDecides) decided = answered.decided
          }
        }
        const created = yield* newStep(principal, session_id, step, known, ruled, now, {
          ...advance,
          model: decided?.model
        })
        const claimed =
          claim !== undefined && created.answer.decision === "allow"
            ? yield* claimExecution(null, claim, now)
            : { execution: null, transitions: [] }
        const outcome = yield* writer.write(
          {
            org_id,
            session_id,
            change: {
              _tag: "Step",
              step: created.row,
              approval: created.approval,
              claim: claimed.execution,
              spends: ruled.spends,
              review: decided?.review ?? null,
              shadow_revision: list.shadow_revision
            },
            rules_revision: list.revision,
            events: [...created.events, ...executionEvents(claimed.transitions, created.row)],
            published: created.requested === null ? [] : [created.requested],
            now,
            onWritten: ({ trace_id }) => {
              usage.add(org_id, { bytes: stepBytes(created) })
              const recorded = recordStepSpan(
                spans,
                trace_id,
                created.row,
                step,
                created.answer.decision_source,
                now
              )
              const { approval } = created
              const { answered } = request
              if (answered === undefined) return recorded
              if (decided !== undefined)
                return Effect.andThen(
                  recorded,
                  Metric.update(reviewerAnswers("decided", answered.reply.decision), 1)
                )
              return approval === null
                ? recorded
                : Effect.andThen(recorded, reviews.record(answered, approval))
            }
          },
          isLocked
        )
        switch (outcome._tag) {
          case "Written":
            return withClaim(key, submitted, created.answer, claimed.execution)
          case "Saved":
            return yield* resume(request, outcome.step, isLocked)
          case "NotWritten":
            return undefined
        }
      })

      /** The answer about a step that waits, with the messages of reviewers after a number. Default: after the agent's last answer. */
      const withMessages = Effect.fnUntraced(function* (
        org_id: OrgId,
        { approval }: ResumedStep,
        answer: GovernedStep,
        after_message: number | undefined
      ) {
        if (approval === null || answer.decision !== "pending" || answer.approval_id === null) return answer
        const after = after_message ?? approval.newest_answer
        if (approval.newest_question <= after) return answer
        const found = yield* listMessages(sql, org_id, answer.approval_id, after)
        return { ...answer, messages: found.filter(({ sender }) => sender === "reviewer") }
      })

      /** Resumes a saved step. Undefined: it needs the session's lock. */
      const resume = Effect.fnUntraced(function* (
        { after_message, claim: options, key, step, texts }: StepCheck,
        found: ResumedStep,
        isLocked: boolean
      ) {
        const { org_id } = key
        if (found.session_closed) return undefined
        yield* requireSameContent(found, yield* texts.digestWith(found), step)
        if (found.completed)
          return yield* options === undefined ? alreadyCompleted : refuseClaim(sql, key, found.execution)
        if (!isLocked) yield* nextTurn
        // After the read: the request may have waited for its batch or its turns while a window ended, or while a person decided.
        const now = yield* clock.now
        const list = yield* isLocked ? rules.current(org_id) : rules.cached(org_id)
        if (!isLocked && list.revision !== found.rules_revision) return undefined
        const saved = yield* withoutPassedWindows(key, found, isLocked, now)
        if (saved === undefined) return undefined
        // The digests are equal, so these are the arguments of the saved step.
        const input = { ...saved, arguments: step.arguments }
        const ruling = list.compiled.evaluate(input, savedBudgets(saved))
        const decided = currentDecision(saved, yield* approvalOf(org_id, saved), ruling)
        const answer = yield* withMessages(org_id, saved, decided, after_message)
        if (answer.decision === "allow") {
          if (options !== undefined) {
            const by = { options, list, step: input, now, isLocked }
            const claim = yield* claimSaved(key, saved, answer, by)
            return claim === undefined ? undefined : withClaim(key, saved, answer, claim)
          }
          // Only the owner of the claim may execute it. After a person has allowed another attempt, a claim may follow.
          if (saved.execution !== null && saved.execution.state !== "retryable")
            return yield* refuseClaim(
              sql,
              key,
              transitionExecution(saved.execution, { _tag: "Time" }, now).execution
            )
        }
        if (answer.decision === saved.last_decision) return answer
        // Without the lock a pending approval can be decided before the write; a closed one never changes.
        if (!isLocked && saved.approval?.status === "pending" && ruling.effect !== "reject") return undefined
        const outcome = yield* writer.write(
          {
            org_id,
            session_id: key.session_id,
            change: {
              _tag: "Decision",
              step_id: saved.step_id,
              from: saved.last_decision,
              to: answer.decision
            },
            rules_revision: list.revision,
            events: [stepGovernedEvent(answer, saved)],
            published: [],
            now,
            onWritten: () => Effect.void
          },
          isLocked
        )
        return outcome._tag === "Written" ? answer : undefined
      })

      /** Fails unless a saved step, whose last decision was not `allow`, is allowed now. */
      const requireAllowedNow = Effect.fnUntraced(function* (
        key: StepKey,
        found: ResumedStep,
        now: Timestamp
      ) {
        if (found.last_decision === "reject") return yield* stepNotAllowed
        const stored = readArguments(sql, key.org_id, key.session_id, key.step_id)
        // First, because new rules take time to compile, and closing a window locks rows that others wait for.
        const ruling = yield* rules.evaluate(key.org_id, found, stored)
        const saved = yield* withoutPassedWindows(key, found, true, now)
        if (saved === undefined) return yield* stepNotFound
        const { decision } = currentDecision(saved, yield* approvalOf(key.org_id, saved), ruling)
        return decision === "allow" ? saved : yield* stepNotAllowed
      })

      /** Records an outcome, without a lock or under the session's. Undefined: it needs the lock. */
      const completeWith = Effect.fnUntraced(function* (
        { org_id }: Principal,
        session_id: SessionId,
        step_id: StepId,
        report: OutcomeReport,
        isLocked: boolean
      ) {
        const key = { org_id, session_id, step_id }
        const found = yield* writer.findStep(key)
        if (found === undefined) return isLocked ? yield* stepNotFound : undefined
        if (found.session_closed) return isLocked ? yield* sessionClosed : undefined
        if (found.completed) return isLocked ? yield* alreadyCompleted : undefined
        const given = report.claim_id ?? null
        // The current decision matters unless the agent has received `allow`, as the holder of the claim has.
        const isAllowed = found.last_decision === "allow" || found.execution !== null
        if (!isAllowed && !isLocked) return undefined
        const now = yield* clock.now
        const { execution, refusal, transitions } = transitionExecution(
          found.execution,
          { _tag: "Complete", claim_id: given },
          now
        )
        if (refusal !== null) return isLocked ? yield* claimMismatch(found.execution, given) : undefined
        const saved = isAllowed ? found : yield* requireAllowedNow(key, found, now)
        const outcome = outcomeOf(step_id, report, execution, now)
        const result = yield* writer.write(
          {
            org_id,
            session_id,
            change: {
              _tag: "Outcome",
              outcome,
              last_decision: saved.last_decision,
              execution: { from: found.execution, to: execution }
            },
            rules_revision: null,
            events: [
              ...executionEvents(transitions, saved),
              toolOutcomeEvent(outcome, saved.tool, execution)
            ],
            published: [],
            now,
            onWritten: ({ trace_id }) => {
              usage.add(org_id, { bytes: outcomeBytes(report) })
              return Effect.andThen(
                countUnknown(transitions),
                recordOutcomeSpan(
                  spans,
                  trace_id,
                  { org_id, session_id, step: saved, approval: saved.approval, execution },
                  outcome
                )
              )
            }
          },
          isLocked
        )
        return result._tag === "Written" ? outcome : undefined
      })

      /** Fails if storage is full and the step is new. The decision on a saved step is returned in any case. */
      const requireCapacity = (key: StepKey) =>
        Effect.catchTag(usage.requireCapacity(key.org_id), "LIMIT_REACHED", (full) =>
          Effect.flatMap(writer.findStep(key), (saved) =>
            saved === undefined ? Effect.fail(full) : Effect.void
          )
        )

      /** Errors of tools are shown to people, and often contain the tool's arguments. */
      const redactError = Effect.fnUntraced(function* (org_id: OrgId, report: OutcomeReport) {
        const { error = null } = report
        return error === null
          ? report
          : { ...report, error: redactText(error, yield* secrets.forOrg(org_id)) }
      })

      return Steps.of({
        check: Effect.fn("Steps.check")(function* (
          session_id,
          step,
          { after_message, idempotency_key }: CheckOptions = {}
        ) {
          const principal = yield* Authorized("sessions.write")
          const { after_unknown, claim = false, lease_seconds } = step
          if (!claim && (after_unknown ?? lease_seconds) !== undefined) return yield* claimMissing
          const isOwn = yield* facts.requireWritable(principal, session_id)
          const key = { org_id: principal.org_id, session_id, step_id: step.step_id }
          yield* requireCapacity(key)
          const texts = makeRequestTexts(principal, session_id, step)
          const request: StepCheck = {
            principal,
            key,
            step,
            after_message,
            claim: claim ? claimOptions(principal, "step", step, idempotency_key) : undefined,
            isOwn,
            texts,
            answered: undefined
          }
          return yield* writer.commit((isLocked) =>
            isLocked
              ? yieldingOnly(
                  Effect.flatMap(lockSession(principal, session_id), (session) => checkWith(request, session))
                )
              : Effect.tap(checkWith(request, undefined), (answer) =>
                  // Before the session is locked: a repeated step is compared by its digest under the lock.
                  answer === undefined ? Effect.andThen(texts.digestWith(step), nextTurn) : Effect.void
                )
          )
        }),
        complete: Effect.fn("Steps.complete")(function* (session_id, step_id, given) {
          const principal = yield* Authorized("sessions.write")
          yield* facts.requireWritable(principal, session_id)
          const report = yield* redactError(principal.org_id, given)
          return yield* writer.commit((isLocked) =>
            isLocked
              ? Effect.andThen(
                  lockSession(principal, session_id),
                  completeWith(principal, session_id, step_id, report, true)
                )
              : completeWith(principal, session_id, step_id, report, false)
          )
        })
      })
    })
  )
}
