import { Array as Arr, DateTime, Effect, Option, type Schema } from "effect"
import type { OutcomeReport, StepRequest } from "../../../api/AgentSessions.ts"
import { notFound } from "../../../api/notFound.ts"
import type { Approval } from "../../../domain/approvals/Approval.ts"
import type { Ruling } from "../../../domain/approvals/ApprovalRule.ts"
import { transition } from "../../../domain/approvals/ApprovalState.ts"
import { stepGovernedEvent, toolOutcomeEvent } from "../../../domain/approvals/SessionEvent.ts"
import { currentDecision } from "../../../domain/approvals/StepDecision.ts"
import { proposalDigestInSlices } from "../../../domain/approvals/StepDigest.ts"
import type { OrgId, SessionId, StepId } from "../../../domain/Ids.ts"
import type { Principal } from "../../../domain/identity/Principal.ts"
import type { Timestamp } from "../../../domain/Time.ts"
import type { StoredUsage } from "../../identity/StoredUsage.ts"
import type { StoreClock } from "../../store/StoreClock.ts"
import { atomic } from "../../store/transaction.ts"
import { type RecordDeps, recordTransitionsOf } from "../Approvals/recordTransitions.ts"
import { insertApproval, lockApprovalForUpdate, stateOf, toApproval } from "../approvalRows.ts"
import { digestInTurns } from "../digestInTurns.ts"
import { ruleNewStep, type Rules } from "../Rules.ts"
import { contentDigest } from "../Grants/createGrant.ts"
import { canHaveGrants } from "../Grants/rows.ts"
import { makeTakeGrant } from "../Grants/takeGrant.ts"
import { findProposal, useProposal } from "../proposalRows.ts"
import { type LockedSession, lockSessionForUpdate } from "../Sessions/rows.ts"
import { outcomeOf } from "./outcomeOf.ts"
import { contentOf, newStep, type RequestTexts } from "./newStep.ts"
import {
  findStep,
  insertStep,
  readArguments,
  type SavedStep,
  updateLastDecision,
  updateOutcome
} from "./rows.ts"
import { recordOutcomeSpan, recordStepSpan } from "./spans.ts"
import { outcomeBytes, stepBytes } from "./storedBytes.ts"
import {
  alreadyCompleted,
  requireResumable,
  requireTaskOfStep,
  sessionClosed,
  stepNotAllowed,
  stepNotFound
} from "./stepRefusals.ts"

/** What these operations use. */
export interface StepDeps extends RecordDeps {
  readonly clock: StoreClock["Service"]
  readonly rules: Rules["Service"]
  readonly usage: StoredUsage["Service"]
}

/**
 * Checks and outcomes of steps in a transaction of their own, which waits for the session's lock and reads everything
 * under it. They work in every case; `Steps` uses them if a shared statement is not possible.
 */
export const makeStepsInTransaction = (deps: StepDeps) => {
  const { clock, events, notifications, rules, spans, sql, usage } = deps
  const atomically = atomic(sql)
  const takeGrant = makeTakeGrant(sql)

  const openSession = (org_id: OrgId, session_id: SessionId) =>
    Effect.flatMap(lockSessionForUpdate(sql, org_id, session_id), (session) =>
      Option.isNone(session) ? notFound("session") : Effect.succeed(session.value)
    )

  /** The current approval of a step, or null. Windows that have passed are closed first. */
  const currentApproval = Effect.fnUntraced(function* (org_id: OrgId, saved: SavedStep, now: Timestamp) {
    if (saved.approval_id === null) return null
    const row = yield* lockApprovalForUpdate(sql, org_id, saved.approval_id)
    if (row === undefined)
      return yield* Effect.die(new Error("A step's approval must exist as long as the step"))
    const { transitions } = transition(stateOf(row), { _tag: "Time" }, now)
    return toApproval(yield* recordTransitionsOf(deps, row, transitions, now))
  })

  /** The current decision of a saved step, from the current rules and its approval. */
  const resolveDecision = Effect.fnUntraced(function* (
    org_id: OrgId,
    saved: SavedStep,
    stepArguments: Effect.Effect<Schema.Json | undefined>,
    now: Timestamp
  ) {
    const ruling = yield* rules.evaluate(org_id, saved, stepArguments)
    const approval: Approval | null = yield* currentApproval(org_id, saved, now)
    return { answer: currentDecision(saved, approval, ruling), approval }
  })

  /** The counter-proposal that allows a new step whose ruling requires an approval; undefined if there is none. */
  const proposalFor = (
    { actor, org_id }: Principal,
    session_id: SessionId,
    step: StepRequest,
    { created_by_id, proposals_until }: LockedSession,
    ruling: Ruling,
    now: Timestamp
  ) =>
    ruling.effect !== "require_approval" ||
    proposals_until === null ||
    DateTime.isLessThanOrEqualTo(proposals_until, now)
      ? Effect.undefined
      : Effect.flatMap(
          digestInTurns(() => proposalDigestInSlices({ org_id, session_id, ...contentOf(step) })),
          (digest) =>
            findProposal(sql, {
              org_id,
              session_id,
              digest,
              terms: ruling.terms,
              requesters: [created_by_id, actor.id],
              now
            })
        )

  /** Counts a use of the grant that allows a new step whose ruling requires an approval; undefined if there is none. */
  const grantFor = (
    { actor, org_id }: Principal,
    session_id: SessionId,
    step: StepRequest,
    { created_by_id, grants_until }: LockedSession,
    ruling: Ruling,
    now: Timestamp
  ) =>
    ruling.effect !== "require_approval" || !canHaveGrants(grants_until, now)
      ? Effect.undefined
      : takeGrant({
          org_id,
          session_id,
          tool: step.tool,
          action_class: step.action_class,
          arguments: step.arguments,
          contentDigest: contentDigest({ org_id, session_id, ...step }, step.arguments),
          requesters: [actor.id, created_by_id],
          ruling,
          now
        })

  /** Decides and saves a step that is requested for the first time. */
  const insert = Effect.fnUntraced(function* (
    principal: Principal,
    session_id: SessionId,
    step: StepRequest,
    texts: RequestTexts,
    session: LockedSession,
    isOwn: boolean
  ) {
    const { org_id } = principal
    const now = yield* clock.now
    // An omitted task_id inherits the session's, so that the rules of that task still apply.
    const task_id = step.task_id ?? session.task_id ?? null
    yield* requireTaskOfStep(sql, org_id, session.task_id, task_id)
    const ruled = ruleNewStep(yield* rules.current(org_id), { ...step, task_id, arguments: step.arguments })
    const { ruling } = ruled
    // A person gave them to the session's own keys, also if others take part in it.
    const proposal = isOwn ? yield* proposalFor(principal, session_id, step, session, ruling, now) : undefined
    const grant =
      isOwn && proposal === undefined
        ? yield* grantFor(principal, session_id, step, session, ruling, now)
        : undefined
    const known = yield* texts.all
    const created = yield* newStep(principal, session_id, { ...step, task_id }, known, ruled, now, {
      proposal,
      grant
    })
    if (proposal !== undefined)
      yield* useProposal(sql, { org_id, approval_id: proposal.approval_id }, step.step_id)
    yield* insertStep(sql, created.row)
    if (created.approval !== null) yield* insertApproval(sql, created.approval)
    const traces = yield* events.append([{ org_id, session_id, events: created.events }], now)
    const { decision_source } = created.answer
    yield* recordStepSpan(spans, traces.get(session_id), created.row, step, decision_source, now)
    if (created.requested !== null) yield* notifications.publish(org_id, [created.requested], now)
    yield* sql.afterCommit(Effect.sync(() => usage.add(org_id, { bytes: stepBytes(created) })))
    return created.answer
  })

  return {
    /** `isOwn`: whether the session belongs to the caller's key. */
    check: (
      principal: Principal,
      session_id: SessionId,
      step: StepRequest,
      texts: RequestTexts,
      isOwn: boolean
    ) =>
      atomically(
        Effect.gen(function* () {
          const { org_id } = principal
          const session = yield* openSession(org_id, session_id)
          if (session.closed) return yield* sessionClosed
          const saved = Option.getOrUndefined(yield* findStep(sql, org_id, session_id, step.step_id))
          if (saved === undefined) return yield* insert(principal, session_id, step, texts, session, isOwn)
          yield* requireResumable(saved, yield* texts.digestWith(saved), step)
          const now = yield* clock.now
          // The digests are equal, so these are the arguments of the saved step.
          const { answer } = yield* resolveDecision(org_id, saved, Effect.succeed(step.arguments), now)
          if (answer.decision !== saved.last_decision) {
            yield* updateLastDecision(sql, org_id, session_id, answer)
            yield* events.append([{ org_id, session_id, events: [stepGovernedEvent(answer, saved)] }], now)
          }
          return answer
        })
      ),

    complete: (org_id: OrgId, session_id: SessionId, step_id: StepId, report: OutcomeReport) =>
      atomically(
        Effect.gen(function* () {
          const session = yield* openSession(org_id, session_id)
          const saved = Option.getOrUndefined(yield* findStep(sql, org_id, session_id, step_id))
          if (saved === undefined) return yield* stepNotFound
          if (session.closed) return yield* sessionClosed
          if (saved.completed) return yield* alreadyCompleted
          const now = yield* clock.now
          const stored = readArguments(sql, org_id, session_id, step_id)
          const { answer, approval } = yield* resolveDecision(org_id, saved, stored, now)
          // The agent acted on an earlier `allow`: its outcome is recorded even if the rules have changed since.
          const { last_decision } = saved
          if (last_decision === "reject" || (last_decision === "pending" && answer.decision !== "allow"))
            return yield* stepNotAllowed
          const outcome = outcomeOf(step_id, report, now)
          yield* updateOutcome(sql, org_id, session_id, outcome)
          const recorded = Arr.of(toolOutcomeEvent(outcome, saved.tool))
          const traces = yield* events.append([{ org_id, session_id, events: recorded }], now)
          yield* recordOutcomeSpan(
            spans,
            traces.get(session_id),
            { org_id, session_id, step: saved, approval },
            outcome
          )
          yield* sql.afterCommit(Effect.sync(() => usage.add(org_id, { bytes: outcomeBytes(report) })))
          return outcome
        })
      )
  }
}
