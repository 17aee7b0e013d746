import { Array as Arr, Context, Effect, Layer, Option } from "effect"
import { SqlClient } from "effect/sql"
import type { OutcomeReport, StepRequest } from "../../api/AgentSessions.ts"
import { Authorized } from "../../api/Authorization.ts"
import {
  NotFound,
  SessionClosed,
  StepAlreadyCompleted,
  StepMismatch,
  StepNotAllowed
} from "../../api/Problems.ts"
import type { GovernedStep, StepDecision, StepOutcome } from "../../domain/approvals/AgentSession.ts"
import type { Ruling } from "../../domain/approvals/ApprovalRule.ts"
import { requestApproval, transition } from "../../domain/approvals/ApprovalState.ts"
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
import { recordApprovalTransitions } from "./Approvals/recordTransitions.ts"
import {
  type ApprovalRow,
  lockApprovalForUpdate,
  insertApproval,
  stateOf,
  toApproval
} from "./Approvals/rows.ts"
import { atomic } from "../store/Database/transaction.ts"
import { Notifications } from "../notifications/Notifications.ts"
import { Rules } from "./Rules.ts"
import { appendEvents } from "./SessionEvents.ts"
import { sessionNotFound } from "./Sessions.ts"
import { lockSessionForUpdate } from "./Sessions/rows.ts"
import { noTaskNamed, requireTask } from "../tasks/Tasks/rows.ts"
import { Spans } from "../telemetry/Spans.ts"
import { recordStepSpan, recordOutcomeSpan } from "./Steps/spans.ts"
import { findStep, updateOutcome, insertStep, type SavedStep, updateLastDecision } from "./Steps/rows.ts"
import { StoreClock } from "../store/StoreClock.ts"

/** Why a check is not answered with a decision. */
export type CheckStepError = NotFound | SessionClosed | StepMismatch | StepAlreadyCompleted

/** Why an outcome is not recorded. */
export type CompleteStepError = NotFound | SessionClosed | StepNotAllowed | StepAlreadyCompleted

/** Governed steps: an agent asks before it acts. */
export class Steps extends Context.Service<
  Steps,
  {
    /**
     * Allows, rejects or holds a step by the organization's rules. However often and however many at once ask for one step, it has
     * one approval. The same call again is the resume: it is answered with the decision as it stands, after the rules were asked
     * again, since a rule that now rejects wins over an approval.
     */
    readonly check: (
      session_id: SessionId,
      step: StepRequest
    ) => Effect.Effect<GovernedStep, CheckStepError, Authorized<"sessions.write">>
    /** Records what became of an allowed step, once. */
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

      /** A step seen for the first time. */
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
          arguments: argumentsOf(step),
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
          // Immediate decisions are recorded in the session and sent to nobody.
          const traces = yield* appendEvents(sql, [{ org_id, session_id, events: [governed] }], now)
          yield* recordStepSpan(spans, traces, org_id, session_id, step, answer, now)
          return answer
        }
        yield* insertApproval(sql, pending)
        const requested = { event: "approval.requested" as const, approval: toApproval(pending) }
        const events = Arr.make(governed, approvalTransitionedEvent(requested))
        const traces = yield* appendEvents(sql, [{ org_id, session_id, events }], now)
        yield* recordStepSpan(spans, traces, org_id, session_id, step, answer, now)
        yield* notifications.publish(org_id, [requested], now)
        return answer
      })

      /** The approval of a step, if it has one, as it stands at this moment: windows that have passed are closed first. */
      const approvalNow = Effect.fnUntraced(function* (org_id: OrgId, known: SavedStep, now: Timestamp) {
        if (known.approval_id === null) return null
        const [row] = yield* lockApprovalForUpdate(sql, org_id, known.approval_id)
        if (row === undefined)
          return yield* Effect.die(new Error("A step's approval must exist as long as the step"))
        const { transitions } = transition(stateOf(row), { _tag: "Time" }, now)
        return toApproval(
          yield* recordApprovalTransitions({ notifications, spans, sql }, row, transitions, now)
        )
      })

      /** The decision of a saved step as it stands: the rules and the approval are asked again. */
      const stand = Effect.fnUntraced(function* (org_id: OrgId, known: SavedStep, now: Timestamp) {
        const ruling = yield* rules.judge(org_id, known)
        const approval = yield* approvalNow(org_id, known, now)
        return { answer: currentDecision(known, approval, ruling), approval }
      })

      return Steps.of({
        check: Effect.fn("Steps.check")(function* (session_id, step) {
          const principal = yield* Authorized("sessions.write")
          const { org_id } = principal
          return yield* atomically(
            Effect.gen(function* () {
              const session = yield* lockSessionForUpdate(sql, org_id, session_id)
              if (Option.isNone(session)) return yield* sessionNotFound
              if (session.value.closed) return yield* closed
              const known = yield* findStep(sql, org_id, session_id, step.step_id)
              const now = yield* clock.now
              if (Option.isNone(known)) {
                // A step that names no task is one of its session's: rules of that task must not be left behind by silence.
                const task_id = step.task_id ?? session.value.task_id
                if (task_id !== session.value.task_id && task_id !== null)
                  yield* requireTask(sql, org_id, task_id, noTaskNamed)
                const ruling = yield* rules.judge(org_id, { ...step, task_id })
                return yield* govern(principal, session_id, { ...step, task_id }, ruling, now)
              }
              yield* sameStep(known.value, digestOf(principal, session_id, step), step)
              const { answer } = yield* stand(org_id, known.value, now)
              if (answer.decision !== known.value.last_decision) {
                yield* updateLastDecision(sql, org_id, session_id, answer)
                const events = Arr.of(stepGovernedEvent(answer, known.value))
                yield* appendEvents(sql, [{ org_id, session_id, events }], now)
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
              if (Option.isNone(session)) return yield* sessionNotFound
              const known = yield* findStep(sql, org_id, session_id, step_id)
              if (Option.isNone(known)) return yield* noStep
              if (session.value.closed) return yield* closed
              if (known.value.completed) return yield* completed
              const now = yield* clock.now
              const { answer, approval } = yield* stand(org_id, known.value, now)
              // Who was told to go on went on: that rules were tightened since must not leave what it did unrecorded.
              const { last_decision } = known.value
              if (
                last_decision === "reject" ||
                (last_decision === "pending" && answer.decision !== "allow")
              ) {
                return yield* new StepNotAllowed({ detail: "Ask for the step and wait until it is allowed" })
              }
              const outcome: StepOutcome = {
                step_id,
                status: report.status,
                ...(report.result === undefined ? {} : { result: report.result }),
                error: report.error ?? null,
                occurred_at: now
              }
              yield* updateOutcome(sql, org_id, session_id, outcome)
              const events = Arr.of(toolOutcomeEvent(outcome, known.value.tool))
              const traces = yield* appendEvents(sql, [{ org_id, session_id, events }], now)
              yield* recordOutcomeSpan(spans, traces, org_id, session_id, known.value, approval, outcome)
              return outcome
            })
          )
        })
      })
    })
  )
}

const noStep = Effect.fail(new NotFound({ detail: "There is no such step in this session" }))

const closed = Effect.fail(new SessionClosed({ detail: "Open another session for this step" }))

const completed = Effect.fail(
  new StepAlreadyCompleted({ detail: "Its outcome is recorded; use another step_id" })
)

/** What the store keeps of the arguments: their text. That of `null` is a text, too. */
const argumentsOf = (step: StepRequest): string | null =>
  step.arguments === undefined ? null : JSON.stringify(step.arguments)

/** The digest of what a step of this id would execute. */
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

/** A step that is asked for again must be the step that was saved, and still be open. */
const sameStep = (
  known: SavedStep,
  digest: ReturnType<typeof digestOf>,
  step: StepRequest
): Effect.Effect<void, StepMismatch | StepAlreadyCompleted> => {
  const mismatched = stepMismatches(known, step, digest)
  if (mismatched.length > 0) {
    const detail = `The saved step has another ${mismatched.join(" and another ")}; nothing was consumed`
    return Effect.fail(new StepMismatch({ detail, mismatched }))
  }
  return known.completed ? completed : Effect.void
}

const newApproval = (
  { actor, org_id }: Principal,
  session_id: SessionId,
  approval_id: ApprovalId,
  step: StepRequest,
  arguments_digest: string,
  ruling: Ruling,
  now: Timestamp
): ApprovalRow => {
  const state = requestApproval(ruling.terms, actor.id, now)
  return {
    org_id,
    approval_id,
    session_id,
    step_id: step.step_id,
    task_id: step.task_id ?? null,
    tool: step.tool,
    action_class: step.action_class,
    arguments: argumentsOf(step),
    arguments_digest,
    requested_at: now,
    requested_by_id: actor.id,
    status: state.status,
    stage: state.stage,
    review_deadline_at: state.review_deadline_at,
    escalation_deadline_at: state.escalation_deadline_at,
    expires_at: state.expires_at,
    expiring_seconds: state.expiring_seconds,
    expiring_notified: state.expiring_notified,
    escalated_at: state.escalated_at,
    timeout_action: state.timeout_action,
    self_approval: state.self_approval,
    outcome: state.outcome,
    decision_source: state.decision_source,
    decided_at: state.decided_at,
    decided_by_id: null,
    decided_by_name: null,
    comment: null
  }
}
