import { Array as Arr, Context, Effect, Layer, Option } from "effect"
import { SqlClient } from "effect/sql"
import type { OutcomeReport, StepRequest } from "../../api/AgentSessions.ts"
import { Authorized } from "../../api/Authorization.ts"
import { notFound } from "../../api/notFound.ts"
import {
  NotFound,
  SessionClosed,
  StepAlreadyCompleted,
  StepMismatch,
  StepNotAllowed
} from "../../api/Problems.ts"
import type { GovernedStep, StepDecision, StepOutcome } from "../../domain/approvals/AgentSession.ts"
import type { Ruling } from "../../domain/approvals/ApprovalRule.ts"
import { transition } from "../../domain/approvals/ApprovalState.ts"
import { ApprovalId, type OrgId, type SessionId, type StepId } from "../../domain/Ids.ts"
import type { Principal } from "../../domain/identity/Principal.ts"
import {
  approvalTransitionedEvent,
  stepGovernedEvent,
  toolOutcomeEvent
} from "../../domain/approvals/SessionEvent.ts"
import { stepMismatches, currentDecision } from "../../domain/approvals/StepDecision.ts"
import { stepDigest } from "../../domain/approvals/StepDigest.ts"
import type { Timestamp } from "../../domain/Time.ts"
import { recordTransitionsOf } from "./Approvals/recordTransitions.ts"
import { insertApproval, lockApprovalForUpdate, stateOf, toApproval } from "./approvalRows.ts"
import { atomic } from "../store/transaction.ts"
import { Notifications } from "../notifications/Notifications.ts"
import { Rules } from "./Rules.ts"
import { SessionEvents } from "./SessionEvents.ts"
import { lockSessionForUpdate } from "./Sessions/rows.ts"
import { requireTask } from "../tasks/requireTask.ts"
import { Spans } from "../telemetry/Spans.ts"
import { recordStepSpan, recordOutcomeSpan } from "./Steps/spans.ts"
import { argumentsText, newApproval } from "./Steps/newApproval.ts"
import { findStep, updateOutcome, insertStep, type SavedStep, updateLastDecision } from "./Steps/rows.ts"
import { StoreClock } from "../store/StoreClock.ts"

/** Why a check gets no decision. */
export type CheckStepError = NotFound | SessionClosed | StepMismatch | StepAlreadyCompleted

/** Why an outcome is refused. */
export type CompleteStepError = NotFound | SessionClosed | StepNotAllowed | StepAlreadyCompleted

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
      const atomically = atomic(sql)
      const clock = yield* StoreClock
      const rules = yield* Rules
      const notifications = yield* Notifications
      const spans = yield* Spans
      const events = yield* SessionEvents

      /** Decides and saves a step that is requested for the first time. */
      const govern = Effect.fnUntraced(function* (
        principal: Principal,
        session_id: SessionId,
        step: StepRequest,
        ruling: Ruling,
        now: Timestamp
      ) {
        const { actor, org_id } = principal
        const digest = digestOf(principal, session_id, step)(step)
        const pending =
          ruling.effect === "require_approval"
            ? yield* Effect.map(ApprovalId.generate, (id) =>
                newApproval(principal, session_id, id, step, digest, ruling, now)
              )
            : null
        const answer: GovernedStep = {
          step_id: step.step_id,
          decision: pending === null ? immediate(ruling) : "pending",
          approval_id: pending?.approval_id ?? null,
          reason: ruling.reason,
          rule_id: ruling.rule_id,
          expires_at: pending?.expires_at ?? null,
          arguments_digest: digest
        }
        yield* insertStep(sql, {
          org_id,
          session_id,
          step_id: step.step_id,
          task_id: step.task_id ?? null,
          tool: step.tool,
          action_class: step.action_class,
          arguments: argumentsText(step),
          arguments_digest: digest,
          rule_id: ruling.rule_id,
          decision: answer.decision,
          reason: ruling.reason,
          approval_id: answer.approval_id,
          requested_by_id: actor.id,
          requested_at: now
        })
        const governed = stepGovernedEvent(answer, step)
        if (pending === null) {
          // Immediate decisions are session events only; no receiver is notified of them.
          const traces = yield* events.append([{ org_id, session_id, events: [governed] }], now)
          yield* recordStepSpan(spans, traces, org_id, session_id, step, answer, now)
          return answer
        }
        yield* insertApproval(sql, pending)
        const requested = { event: "approval.requested" as const, approval: toApproval(pending) }
        const recorded = Arr.make(governed, approvalTransitionedEvent(requested))
        const traces = yield* events.append([{ org_id, session_id, events: recorded }], now)
        yield* recordStepSpan(spans, traces, org_id, session_id, step, answer, now)
        yield* notifications.publish(org_id, [requested], now)
        return answer
      })

      /** The current approval of a step, or null. Windows that have passed are closed first. */
      const currentApproval = Effect.fnUntraced(function* (org_id: OrgId, saved: SavedStep, now: Timestamp) {
        if (saved.approval_id === null) return null
        const row = yield* lockApprovalForUpdate(sql, org_id, saved.approval_id)
        if (row === undefined)
          return yield* Effect.die(new Error("A step's approval must exist as long as the step"))
        const { transitions } = transition(stateOf(row), { _tag: "Time" }, now)
        return toApproval(
          yield* recordTransitionsOf({ events, notifications, spans, sql }, row, transitions, now)
        )
      })

      /** The current decision of a saved step, from the current rules and its approval. */
      const resolveDecision = Effect.fnUntraced(function* (org_id: OrgId, saved: SavedStep, now: Timestamp) {
        const ruling = yield* rules.evaluate(org_id, saved)
        const approval = yield* currentApproval(org_id, saved, now)
        return { answer: currentDecision(saved, approval, ruling), approval }
      })

      return Steps.of({
        check: Effect.fn("Steps.check")(function* (session_id, step) {
          const principal = yield* Authorized("sessions.write")
          const { org_id } = principal
          return yield* atomically(
            Effect.gen(function* () {
              const session = yield* lockSessionForUpdate(sql, org_id, session_id)
              if (Option.isNone(session)) return yield* notFound("session")
              if (session.value.closed) return yield* sessionClosed
              const saved = yield* findStep(sql, org_id, session_id, step.step_id)
              const now = yield* clock.now
              if (Option.isNone(saved)) {
                // An omitted task_id inherits the session's, so that the rules of that task still apply.
                const task_id = step.task_id ?? session.value.task_id
                if (task_id !== session.value.task_id && task_id !== null)
                  yield* requireTask(sql, org_id, task_id, "#/task_id")
                const ruling = yield* rules.evaluate(org_id, { ...step, task_id })
                return yield* govern(principal, session_id, { ...step, task_id }, ruling, now)
              }
              yield* requireResumable(saved.value, digestOf(principal, session_id, step), step)
              const { answer } = yield* resolveDecision(org_id, saved.value, now)
              if (answer.decision !== saved.value.last_decision) {
                yield* updateLastDecision(sql, org_id, session_id, answer)
                const recorded = Arr.of(stepGovernedEvent(answer, saved.value))
                yield* events.append([{ org_id, session_id, events: recorded }], now)
              }
              return answer
            })
          )
        }),
        complete: Effect.fn("Steps.complete")(function* (session_id, step_id, report) {
          const { org_id } = yield* Authorized("sessions.write")
          return yield* atomically(
            Effect.gen(function* () {
              const session = yield* lockSessionForUpdate(sql, org_id, session_id)
              if (Option.isNone(session)) return yield* notFound("session")
              const saved = yield* findStep(sql, org_id, session_id, step_id)
              if (Option.isNone(saved)) return yield* stepNotFound
              if (session.value.closed) return yield* sessionClosed
              if (saved.value.completed) return yield* alreadyCompleted
              const now = yield* clock.now
              const { answer, approval } = yield* resolveDecision(org_id, saved.value, now)
              // The agent acted on an earlier `allow`: its outcome is recorded even if the rules have changed since.
              const { last_decision } = saved.value
              if (
                last_decision === "reject" ||
                (last_decision === "pending" && answer.decision !== "allow")
              ) {
                return yield* new StepNotAllowed({
                  detail:
                    "The step is not allowed. Request its decision and report the outcome after it is allowed."
                })
              }
              const outcome: StepOutcome = {
                step_id,
                status: report.status,
                ...(report.result === undefined ? {} : { result: report.result }),
                error: report.error ?? null,
                occurred_at: now
              }
              yield* updateOutcome(sql, org_id, session_id, outcome)
              const recorded = Arr.of(toolOutcomeEvent(outcome, saved.value.tool))
              const traces = yield* events.append([{ org_id, session_id, events: recorded }], now)
              yield* recordOutcomeSpan(spans, traces, org_id, session_id, saved.value, approval, outcome)
              return outcome
            })
          )
        })
      })
    })
  )
}

const stepNotFound = Effect.fail(new NotFound({ detail: "No such step in this session." }))

const sessionClosed = Effect.fail(
  new SessionClosed({ detail: "The session is closed. Create another session for this step." })
)

const alreadyCompleted = Effect.fail(
  new StepAlreadyCompleted({ detail: "The outcome of this step is already recorded. Use another step_id." })
)

/** The digest of a step with this id and these arguments, under a tool and an action class. */
const digestOf =
  ({ org_id }: Principal, session_id: SessionId, step: StepRequest) =>
  ({ action_class, tool }: { readonly tool: string; readonly action_class: string }): string =>
    stepDigest({
      org_id,
      session_id,
      step_id: step.step_id,
      tool,
      action_class,
      ...(step.arguments === undefined ? {} : { arguments: step.arguments })
    })

const immediate = (ruling: Ruling): StepDecision => (ruling.effect === "allow" ? "allow" : "reject")

/** Fails unless a resumed step equals the saved step and has no outcome yet. */
const requireResumable = (
  saved: SavedStep,
  digest: ReturnType<typeof digestOf>,
  step: StepRequest
): Effect.Effect<void, StepMismatch | StepAlreadyCompleted> => {
  const mismatched = stepMismatches(saved, step, digest)
  if (mismatched.length > 0) {
    const differ = mismatched.length === 1 ? "differs" : "differ"
    const detail = `${listOf(mismatched)} ${differ} from the saved step; the saved step is unchanged.`
    return Effect.fail(new StepMismatch({ detail, mismatched }))
  }
  return saved.completed ? alreadyCompleted : Effect.void
}

/** "tool, action_class and arguments" */
const listOf = (names: ReadonlyArray<string>): string =>
  names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} and ${names.at(-1) ?? ""}`
