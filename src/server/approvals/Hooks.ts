import { Context, Effect, Layer, Result, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { StepRequest } from "../../api/AgentSessions.ts"
import { Authorized, AuthorizedEither } from "../../api/Authorization.ts"
import type { LimitReached, NotFound } from "../../api/Problems.ts"
import type { ApprovalMessage } from "../../domain/approvals/ApprovalMessage.ts"
import {
  ALREADY_EXECUTED,
  coveredBy,
  describeQuestion,
  describeRejection,
  describeWaiting,
  joinSentences,
  PASSED_TO_MODEL,
  rejectionCause,
  sentence
} from "../../domain/approvals/describeDecision.ts"
import type { GovernedStep } from "../../domain/approvals/AgentSession.ts"
import { callStepId, repeatedStepId } from "../../domain/approvals/callStepId.ts"
import { proposalDigestInSlices } from "../../domain/approvals/StepDigest.ts"
import {
  answerAsk,
  answerFault,
  answerNote,
  canDefer,
  type HookAnswer,
  type HookDecision,
  OTHER_DEFERRED
} from "../../domain/hooks/hookAnswer.ts"
import type { HookAsk, HookEnd, HookInput, HookReport } from "../../domain/hooks/HookInput.ts"
import { hookActionClass } from "../../domain/hooks/hookVendors.ts"
import { type ApprovalId, type SessionId, StepId } from "../../domain/Ids.ts"
import type { Principal } from "../../domain/identity/Principal.ts"
import { formatTimestamp } from "../../domain/Time.ts"
import { StoreClock } from "../store/StoreClock.ts"
import { atomic } from "../store/transaction.ts"
import { digestInTurns } from "./digestInTurns.ts"
import { DecisionWaits } from "./DecisionWaits.ts"
import {
  type CodingCall,
  deferCall,
  findCallStep,
  findCodingSession,
  forgetDeferred,
  hasWaitingCalls,
  lockCodingSession,
  saveCall,
  saveCodingSession,
  saveInterrupted,
  takeWaitingStep,
  wasInterrupted
} from "./Hooks/rows.ts"
import { listMessages } from "./messageRows.ts"
import { Messages } from "./Messages.ts"
import { Sessions } from "./Sessions.ts"
import { type CheckStepError, Steps } from "./Steps.ts"
import { alreadyCompleted } from "./Steps/stepRefusals.ts"

/** How a request is answered. */
export interface HookWish {
  /** How long it waits for a person. */
  readonly waitSeconds: number
  /** Whether a call that needs a person is deferred. */
  readonly defer: boolean
}

/** Times that a session is opened again because it was closed meanwhile. */
const MAX_REOPENED = 2

/** Calls with one ID and the same content that get steps of their own. Further ones are denied. */
const MAX_REPEATS = 100

/** Most characters of an error that is recorded. */
const MAX_ERROR_CHARACTERS = 4_000

const decodeStep = Schema.decodeUnknownResult(StepRequest)
const decodeStepId = Schema.decodeUnknownResult(StepId)

/** Why a call got no decision. */
type Refused = CheckStepError | LimitReached | NotFound

/** Answers HTTP hooks of coding agents, as governed steps of an agent session for each of their sessions. */
export class Hooks extends Context.Service<
  Hooks,
  {
    /** Answers one input of a hook. What cannot be decided is denied. */
    readonly answer: (
      input: HookInput,
      wish: HookWish
    ) => Effect.Effect<HookAnswer, never, Authorized<"sessions.write">>
  }
>()("countersign/server/approvals/Hooks") {
  static readonly layer = Layer.effect(
    Hooks,
    Effect.suspend(() => make)
  )
}

const VENDOR = "claude-code"

const make = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const atomically = atomic(sql)
  const clock = yield* StoreClock
  const sessions = yield* Sessions
  const steps = yield* Steps
  const { untilDecided } = yield* DecisionWaits
  const messages = yield* Messages

  const codingSession = (principal: Principal, coding_session: string) => ({
    org_id: principal.org_id,
    key_id: principal.actor.id,
    agent: VENDOR,
    coding_session
  })

  /** The open agent session of a coding agent's session, if it has one. */
  const findOpen = Effect.fnUntraced(function* (principal: Principal, coding_session: string) {
    const row = yield* Effect.orDie(findCodingSession(sql, codingSession(principal, coding_session)))
    return row?.open === true && row.session_id !== null ? row.session_id : undefined
  })

  /** The open agent session of a coding agent's session. Parallel requests create one: the row of the session is locked meanwhile. */
  const openSession = Effect.fnUntraced(function* (principal: Principal, coding_session: string) {
    const found = yield* findOpen(principal, coding_session)
    if (found !== undefined) return found
    const key = codingSession(principal, coding_session)
    return yield* atomically(
      Effect.gen(function* () {
        yield* Effect.orDie(lockCodingSession(sql, key, yield* clock.now))
        const created = yield* findOpen(principal, coding_session)
        if (created !== undefined) return created
        const { session_id } = yield* sessions.create({ metadata: { coding_agent: VENDOR, coding_session } })
        yield* Effect.orDie(saveCodingSession(sql, key, session_id))
        return session_id
      })
    )
  })

  /** The row of a call. */
  const callOf = Effect.fnUntraced(function* (principal: Principal, session_id: SessionId, callId: string) {
    const call_id = yield* Effect.promise(() => callStepId(callId))
    return { org_id: principal.org_id, session_id, call_id }
  })

  /** Asks once, in a session that is open. */
  const check = Effect.fnUntraced(function* (principal: Principal, event: HookAsk, callId: string) {
    for (let attempt = 0; ; attempt++) {
      const session_id = yield* openSession(principal, event.session)
      const call = yield* callOf(principal, session_id, callId)
      const content = {
        tool: event.tool,
        action_class: hookActionClass(VENDOR, event.tool),
        // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a member of a body that was decoded as JSON
        arguments: event.arguments as Schema.Json
      }
      const proposed = { org_id: principal.org_id, session_id, ...content }
      const digest = yield* digestInTurns(() => proposalDigestInSlices(proposed))
      const known =
        (yield* Effect.orDie(findCallStep(sql, call))) ??
        (yield* Effect.orDie(takeWaitingStep(sql, call, digest)))
      const checked = yield* Effect.result(checkStep(call, known?.step_id, content))
      const isClosed = Result.isFailure(checked) && checked.failure._tag === "SESSION_CLOSED"
      if (isClosed && attempt < MAX_REOPENED) continue
      if (Result.isFailure(checked)) return yield* Effect.fail(checked.failure)
      if (checked.success === undefined) return { _tag: "Invalid" as const }
      const { answer, step } = checked.success
      const isSaved = known !== undefined || step.step_id !== call.call_id
      if (isSaved && step.step_id !== known?.step_id)
        yield* Effect.orDie(saveCall(sql, call, step.step_id, digest, false))
      return {
        _tag: "Checked" as const,
        answer,
        ask: steps.check(session_id, step),
        call,
        digest,
        isSaved,
        step
      }
    }
  })

  /**
   * Asks about a call under the first of its steps that has neither another content nor ended: a coding agent does not repeat a call that
   * ended, but model servers number the calls of each response from the start. Undefined if its ID or name cannot be a step's.
   */
  const checkStep = Effect.fnUntraced(function* (
    { call_id: callId, org_id, session_id }: CodingCall,
    known: StepId | undefined,
    content: Omit<StepRequest, "step_id"> & { readonly arguments: Schema.Json }
  ) {
    let step_id: string = known ?? callId
    let repeat = known === undefined || known === callId ? 1 : 0
    for (;;) {
      const step = decodeStep({ step_id, ...content })
      if (Result.isFailure(step)) return undefined
      const isInterrupted = yield* Effect.orDie(wasInterrupted(sql, { org_id, session_id, step_id }))
      const checked = yield* Effect.result(
        isInterrupted ? alreadyCompleted : steps.check(session_id, step.success)
      )
      if (Result.isSuccess(checked)) return { answer: checked.success, step: step.success }
      const { _tag } = checked.failure
      const isOther = _tag === "STEP_MISMATCH" || _tag === "STEP_ALREADY_COMPLETED"
      if (!isOther || repeat > MAX_REPEATS) return yield* Effect.fail(checked.failure)
      const next = repeat
      step_id = next === 0 ? callId : yield* Effect.promise(() => repeatedStepId(callId, content, next))
      repeat++
    }
  })

  const ask = Effect.fnUntraced(function* (event: HookAsk, wish: HookWish) {
    const principal = yield* Authorized("sessions.write")
    const { callId } = event
    if (callId === undefined) return deny(NO_PERMISSIONS)
    const checked = yield* check(principal, event, callId)
    if (checked._tag === "Invalid") return deny(INVALID_STEP)
    const { call, digest, isSaved, step } = checked
    let { answer } = checked
    const save = (waiting: boolean) => Effect.orDie(saveCall(sql, call, step.step_id, digest, waiting))
    if (answer.decision === "pending" && !(wish.defer && canDefer(VENDOR, event))) {
      const wait = { seconds: wish.waitSeconds, after_message: 0 }
      answer = yield* untilDecided(answer, call.session_id, wait, checked.ask).pipe(
        // The client has gone: the next call with the same content goes on with this step.
        Effect.onInterrupt(() => save(true))
      )
    }
    if (answer.decision === "pending") {
      yield* save(true)
      const { approval_id, expires_at, messages: questions } = answer
      const message = describeWaiting(
        String(approval_id),
        expires_at === null ? null : formatTimestamp(expires_at),
        questions
      )
      if (wish.defer && canDefer(VENDOR, event)) {
        const isLast = yield* atomically(
          Effect.orDie(
            Effect.gen(function* () {
              yield* lockCodingSession(sql, codingSession(principal, event.session), yield* clock.now)
              return yield* deferCall(sql, call)
            })
          )
        )
        return isLast ? { verdict: "defer" as const, message } : deny(`${message} ${OTHER_DEFERRED}`)
      }
      if (questions !== undefined && approval_id !== null) {
        return deny(describeQuestion(approval_id, yield* confirmPassed(principal, approval_id, questions)))
      }
      return deny(
        `${message} Nothing has been rejected: still waiting for approval ${String(approval_id)}; the same call with the same arguments asks again.`
      )
    }
    // The decision is this call's: an equal one asks again. Nothing is written for a call that never waited.
    if (isSaved) yield* save(false)
    return answer.decision === "allow" ? { verdict: "allow" as const } : deny(describe(answer))
  })

  /**
   * Tells the reviewers that the model has their messages, and returns all that this covers: others can have come meanwhile. The next call with
   * the same content waits for the decision again. If it fails, that call gets them again.
   */
  const confirmPassed = (principal: Principal, id: ApprovalId, given: ReadonlyArray<ApprovalMessage>) =>
    messages.send(id, { text: PASSED_TO_MODEL }).pipe(
      Effect.provideService(AuthorizedEither("approvals.decide", "sessions.write"), principal),
      Effect.flatMap((receipt) =>
        Effect.map(listMessages(sql, principal.org_id, id, given.at(-1)?.number ?? 0), (later) => [
          ...given,
          ...coveredBy(receipt, later)
        ])
      ),
      Effect.orElseSucceed(() => given)
    )

  const report = Effect.fnUntraced(function* (event: HookReport) {
    const principal = yield* Authorized("sessions.write")
    const session_id = yield* findOpen(principal, event.session)
    // Without a session nothing was asked.
    if (session_id === undefined) return undefined
    const { callId, end } = event
    const call = yield* callOf(principal, session_id, callId)
    const known = yield* Effect.orDie(findCallStep(sql, call))
    const step_id = known === undefined ? decodeStepId(call.call_id) : Result.succeed(known.step_id)
    if (Result.isFailure(step_id)) return `The outcome of ${event.tool} was not recorded. ${INVALID_STEP}`
    if (end.status === "unknown") {
      // Nobody knows whether it was executed, so it gets no outcome.
      yield* Effect.orDie(saveInterrupted(sql, { ...call, step_id: step_id.success }))
      return undefined
    }
    const recorded = yield* Effect.result(
      steps.complete(
        session_id,
        step_id.success,
        end.status === "failed"
          ? { status: "failed", error: end.error.slice(0, MAX_ERROR_CHARACTERS).toWellFormed() }
          : {
              status: "succeeded",
              // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a member of a body that was decoded as JSON
              ...(end.result === undefined ? {} : { result: end.result as Schema.Json })
            }
      )
    )
    // A report whose response was lost is sent again: the first one counts.
    if (Result.isSuccess(recorded) || recorded.failure._tag === "STEP_ALREADY_COMPLETED") return undefined
    return `The outcome of ${event.tool} was not recorded: ${textOf(recorded.failure)}`
  })

  /** Closes the agent session, unless a call waits or was approved since: the coding agent's session can be resumed, as a deferred run is. */
  const end = Effect.fnUntraced(function* (event: HookEnd) {
    const principal = yield* Authorized("sessions.write")
    const session_id = yield* findOpen(principal, event.session)
    if (session_id === undefined) return
    yield* Effect.orDie(forgetDeferred(sql, principal.org_id, session_id))
    if (yield* Effect.orDie(hasWaitingCalls(sql, principal.org_id, session_id))) return
    yield* Effect.ignore(sessions.close(session_id))
  })

  return Hooks.of({
    answer: Effect.fn("Hooks.answer")(function* (input, wish) {
      switch (input._tag) {
        case "Fault":
          return answerFault(VENDOR, input)
        case "Ask":
          return answerAsk(
            VENDOR,
            input.event,
            yield* Effect.match(ask(input, wish), {
              onFailure: (refused) => deny(describeRefusal(refused)),
              onSuccess: (decision): HookDecision => decision
            })
          )
        case "Report":
          return answerNote(yield* report(input))
        case "End":
          yield* end(input)
          return {}
      }
    })
  })
})

const deny = (message: string): HookDecision => ({ verdict: "deny", message })

const NO_PERMISSIONS =
  "Countersign does not answer PermissionRequest over HTTP, where it could not tell to which call it belongs. PreToolUse decides about every call: remove this hook from PermissionRequest, or use the command `countersign hook claude-code`."

const INVALID_STEP =
  "The ID of the call or the name of the tool is not one that Countersign accepts: visible characters, of a name at most 200."

const textOf = (problem: { readonly _tag: string; readonly detail?: string | undefined }): string =>
  sentence(`${problem._tag}: ${problem.detail ?? problem._tag}`)

const describeRefusal = (refused: Refused): string =>
  refused._tag === "STEP_ALREADY_COMPLETED"
    ? ALREADY_EXECUTED
    : joinSentences(
        "The approval service refused to judge this call, so it was not executed.",
        textOf(refused)
      )

/** Tells what rejected a step, in a session of the caller's key. */
const describe = ({
  changes_requested,
  comment,
  decision_source,
  proposal,
  reason,
  reviewer
}: GovernedStep): string =>
  describeRejection({
    cause: rejectionCause(decision_source),
    reason,
    reviewer,
    comment,
    changes_requested,
    proposal:
      proposal?.arguments === undefined
        ? undefined
        : { arguments: proposal.arguments, expires_at: formatTimestamp(proposal.expires_at) }
  })
