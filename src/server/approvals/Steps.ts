import { Context, DateTime, Effect, Layer, Option } from "effect"
import { SqlClient } from "effect/sql"
import type { OutcomeReport, StepRequest } from "../../api/AgentSessions.ts"
import { Authorized } from "../../api/Authorization.ts"
import type { GovernedStep, StepOutcome } from "../../domain/approvals/AgentSession.ts"
import { stepGovernedEvent, toolOutcomeEvent } from "../../domain/approvals/SessionEvent.ts"
import { currentDecision } from "../../domain/approvals/StepDecision.ts"
import type { OrgId, SessionId, StepId } from "../../domain/Ids.ts"
import { redactText } from "../../domain/redaction/Redaction.ts"
import type { Principal } from "../../domain/identity/Principal.ts"
import { nextTurn, yieldingOnly } from "../admission/LoopTurns.ts"
import { KnownSecrets } from "../secrets/KnownSecrets.ts"
import { StoredUsage } from "../identity/StoredUsage.ts"
import { Notifications } from "../notifications/Notifications.ts"
import { isInTransaction } from "../store/transaction.ts"
import { StoreClock } from "../store/StoreClock.ts"
import { Spans } from "../telemetry/Spans.ts"
import { ruleNewStep, Rules } from "./Rules.ts"
import { SessionEvents } from "./SessionEvents.ts"
import { SessionFacts } from "./SessionFacts.ts"
import { type ResumedStep, SessionWriter } from "./SessionWriter.ts"
import { makeRequestTexts, newStep, type RequestTexts, type StepOfTask } from "./Steps/newStep.ts"
import { outcomeOf } from "./Steps/outcomeOf.ts"
import { outcomeBytes, stepBytes } from "./Steps/storedBytes.ts"
import { recordOutcomeSpan, recordStepSpan } from "./Steps/spans.ts"
import {
  type CheckStepError,
  type CompleteStepError,
  requireResumable,
  requireTaskOfStep
} from "./Steps/stepRefusals.ts"
import { makeStepsInTransaction } from "./Steps/stepsInTransaction.ts"

export type { CheckStepError, CompleteStepError } from "./Steps/stepRefusals.ts"

/** Governed steps: an agent requests a decision before each action. */
export class Steps extends Context.Service<
  Steps,
  {
    /**
     * Allows or rejects a step by the organization's rules, or makes it wait for an approval. A step has one approval however often and
     * concurrently it is requested. Repeating the call resumes the step: it returns the current decision, for which the rules are
     * evaluated again, because a rule that rejects now overrides an approval.
     */
    readonly check: (
      session_id: SessionId,
      step: StepRequest
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
      const notifications = yield* Notifications
      const spans = yield* Spans
      const events = yield* SessionEvents
      const facts = yield* SessionFacts
      const writer = yield* SessionWriter
      const usage = yield* StoredUsage
      const secrets = yield* KnownSecrets
      const inTransaction = makeStepsInTransaction({ sql, clock, rules, notifications, spans, events, usage })

      /** The step with the task whose rules apply to it; undefined if the session does not exist, or the task is refused. */
      const withTask = Effect.fnUntraced(function* (
        { org_id }: Principal,
        session_id: SessionId,
        step: StepRequest
      ) {
        const session = yield* facts.find(org_id, session_id)
        if (session === undefined) return undefined
        const task_id = step.task_id ?? session.task_id
        const isTaken = yield* Effect.option(requireTaskOfStep(sql, org_id, session.task_id, task_id))
        if (Option.isNone(isTaken)) return undefined
        return { ...step, task_id } satisfies StepOfTask
      })

      /** Checks a step by a shared statement. Undefined: it needs a transaction. */
      const checkShared = Effect.fnUntraced(function* (
        principal: Principal,
        session_id: SessionId,
        request: StepRequest,
        texts: RequestTexts
      ) {
        const { org_id } = principal
        const waiting = yield* writer.findWaitingStep({ org_id, session_id, step_id: request.step_id })
        if (waiting !== undefined) return yield* resumeShared(principal, session_id, request, texts, waiting)
        const step = yield* withTask(principal, session_id, request)
        if (step === undefined) return undefined
        const list = yield* rules.cached(org_id)
        const known = yield* texts.all
        const now = yield* clock.now
        const ruling = ruleNewStep(list, { ...step, arguments: request.arguments })
        const created = yield* newStep(principal, session_id, step, known, ruling, now)
        const notification =
          created.requested === null ? null : yield* notifications.prepare(org_id, created.requested, now)
        if (notification === undefined) return undefined
        const outcome = yield* writer.write({
          org_id,
          session_id,
          change: {
            _tag: "Step",
            step: created.row,
            approval: created.approval,
            shadow_revision: list.shadow_revision
          },
          rules_revision: list.revision,
          events: created.events,
          notification,
          now,
          onWritten: ({ trace_id }) => {
            usage.add(org_id, { bytes: stepBytes(created) })
            return recordStepSpan(spans, trace_id, created.row, step, created.answer.decision_source, now)
          }
        })
        switch (outcome._tag) {
          case "Written":
            return created.answer
          case "Saved":
            return yield* resumeShared(principal, session_id, request, texts, outcome.step)
          case "NotWritten":
            return undefined
        }
      })

      /** Resumes a saved step without a lock. Undefined: it needs a transaction. */
      const resumeShared = Effect.fnUntraced(function* (
        principal: Principal,
        session_id: SessionId,
        request: StepRequest,
        texts: RequestTexts,
        saved: ResumedStep
      ) {
        const { org_id } = principal
        const { approval } = saved
        if (saved.session_closed) return undefined
        yield* requireResumable(saved, yield* texts.digestWith(saved), request)
        yield* nextTurn
        // After the read: the request may have waited for its batch or its turns while a window ended, or while a person decided.
        const now = yield* clock.now
        const list = yield* rules.cached(org_id)
        if (list.revision !== saved.rules_revision) return undefined
        // The digests are equal, so these are the arguments of the saved step.
        const ruling = list.compiled.evaluate({ ...saved, arguments: request.arguments })
        // A window has passed, and a transaction has to close it.
        const dueAt = approval?.next_due_at ?? null
        if (dueAt !== null && DateTime.isLessThanOrEqualTo(dueAt, now)) return undefined
        // The answer has the proposal's arguments, which a transaction reads.
        if (approval?.has_proposal === true) return undefined
        const answer = currentDecision(
          saved,
          approval === null ? null : { ...approval, proposal: null },
          ruling
        )
        if (answer.decision === saved.last_decision) return answer
        // A pending approval can be decided until the write; a closed one never changes.
        if (approval?.status === "pending" && ruling.effect !== "reject") return undefined
        const outcome = yield* writer.write({
          org_id,
          session_id,
          change: {
            _tag: "Decision",
            step_id: saved.step_id,
            from: saved.last_decision,
            to: answer.decision
          },
          rules_revision: list.revision,
          events: [stepGovernedEvent(answer, saved)],
          notification: null,
          now,
          onWritten: () => Effect.void
        })
        return outcome._tag === "Written" ? answer : undefined
      })

      /** Records an outcome by a shared statement. Undefined: it needs a transaction. */
      const completeShared = Effect.fnUntraced(function* (
        { org_id }: Principal,
        session_id: SessionId,
        step_id: StepId,
        report: OutcomeReport
      ) {
        const saved = yield* writer.findStep({ org_id, session_id, step_id })
        // The current decision matters unless the agent has received `allow`.
        if (saved === undefined || saved.session_closed || saved.completed || saved.last_decision !== "allow")
          return undefined
        const now = yield* clock.now
        const outcome = outcomeOf(step_id, report, now)
        const result = yield* writer.write({
          org_id,
          session_id,
          change: { _tag: "Outcome", outcome },
          rules_revision: null,
          events: [toolOutcomeEvent(outcome, saved.tool)],
          notification: null,
          now,
          onWritten: ({ trace_id }) => {
            usage.add(org_id, { bytes: outcomeBytes(report) })
            return recordOutcomeSpan(
              spans,
              trace_id,
              { org_id, session_id, step: saved, approval: saved.approval },
              outcome
            )
          }
        })
        return result._tag === "Written" ? outcome : undefined
      })

      /** Fails if storage is full and the step is new. The decision on a saved step is returned in any case. */
      const requireCapacity = (org_id: OrgId, session_id: SessionId, step_id: StepId) =>
        Effect.catchTag(usage.requireCapacity(org_id), "LIMIT_REACHED", (full) =>
          Effect.flatMap(writer.findStep({ org_id, session_id, step_id }), (saved) =>
            saved === undefined ? Effect.fail(full) : Effect.void
          )
        )

      /** Errors of tools are shown to people, and often contain what the tool was called with. */
      const redactError = Effect.fnUntraced(function* (org_id: OrgId, report: OutcomeReport) {
        const { error = null } = report
        return error === null
          ? report
          : { ...report, error: redactText(error, yield* secrets.forOrg(org_id)) }
      })

      return Steps.of({
        check: Effect.fn("Steps.check")(function* (session_id, step) {
          const principal = yield* Authorized("sessions.write")
          const isOwn = yield* facts.requireWritable(principal, session_id)
          yield* requireCapacity(principal.org_id, session_id, step.step_id)
          const texts = makeRequestTexts(principal, session_id, step)
          const answer = (yield* isInTransaction)
            ? undefined
            : yield* checkShared(principal, session_id, step, texts)
          if (answer !== undefined) return answer
          // Not under the session's lock, where a repeated step is compared by it.
          yield* texts.digestWith(step)
          yield* nextTurn
          return yield* yieldingOnly(inTransaction.check(principal, session_id, step, texts, isOwn))
        }),
        complete: Effect.fn("Steps.complete")(function* (session_id, step_id, given) {
          const principal = yield* Authorized("sessions.write")
          yield* facts.requireWritable(principal, session_id)
          const report = yield* redactError(principal.org_id, given)
          const outcome = (yield* isInTransaction)
            ? undefined
            : yield* completeShared(principal, session_id, step_id, report)
          return outcome ?? (yield* inTransaction.complete(principal.org_id, session_id, step_id, report))
        })
      })
    })
  )
}
