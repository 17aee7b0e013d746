import { type GovernedDecision, stepHeaders } from "../client/connect/govern.ts"
import type {
  ApprovalMessage,
  Claim,
  GovernedStep,
  StepRequest
} from "../client/connect/generated/Operations.ts"
import { newIdempotencyKey } from "../client/connect/idempotencyKey.ts"
import {
  type ExecutionFault,
  executionOf,
  faultNotifier,
  renewWhileRunning,
  reportEnd,
  runReported,
  type ToolEnd
} from "../client/connect/execute.ts"
import { backgroundClock, type Lease } from "../client/connect/keepClaim.ts"
import { isProblem, type Problem } from "../client/connect/Problem.ts"
import type { Clock } from "../client/connect/wait.ts"
import { isOutage, isTransient } from "../client/isTransient.ts"
import {
  coveredBy,
  describeQuestion,
  PASSED_TO_MODEL,
  rejectionCause
} from "../domain/approvals/describeDecision.ts"
import { callStepId, repeatedStepId } from "../domain/approvals/callStepId.ts"
import { cutText } from "../domain/cutText.ts"
import { CallMap } from "./toolGate/CallMap.ts"
import {
  describeDenial,
  describeFailure,
  describeHeld,
  describePending,
  describeProblem
} from "./toolGate/messages.ts"
import type {
  Denied,
  DenialCause,
  GateFault,
  GateOptions,
  Pending,
  ToolCall,
  Verdict
} from "./toolGate/publicTypes.ts"
import { toJson } from "../client/connect/recordable.ts"
import { retryUnavailable } from "../client/connect/retryUnavailable.ts"

/** How one call is asked. */
export interface AskOptions {
  /** Aborts the wait; `ask` rejects with its reason, and the approval stays pending. */
  readonly signal?: AbortSignal | undefined
  /** `false`: returns at once, with {@link Pending} if a person has to decide. Default: `true`. */
  readonly wait?: boolean
  /** `false`: an allowed call is not claimed, because it is not executed now, or perhaps not by this process. Default: `true`. */
  readonly claim?: boolean
  /** `false`: the claim is renewed only from {@link ToolGate.execute} on. Default: `true`. */
  readonly renew?: boolean
  /** Identifies the request for a claim. Another process that asks with it gets the same claim. Default: a random one for each call. */
  readonly claimKey?: string
  /** Whether a request with `claimKey` may have been sent before, so that the claim may be old. Default: `false`. */
  readonly mayBeClaimed?: boolean
}

/** Asks the service before tools are called, and reports how they ended. The part that all adapters share. */
export interface ToolGate<Context> {
  /**
   * Asks whether a call may be executed, and waits for the person who decides. Rejects only if its signal was aborted: every other fault
   * is a verdict. Calls that wait share one stream of the session's events.
   */
  readonly ask: (call: ToolCall, context: Context, options?: AskOptions) => Promise<Verdict>
  /**
   * Reports how an allowed call ended. One that failed after its run was aborted was interrupted: its outcome is unknown. Never rejects: what
   * cannot be recorded is a fault (`onFault`). `claim_id`: the claim, if another process asked.
   */
  readonly report: (call: ToolCall, context: Context, end: ToolEnd, claim_id?: string) => Promise<void>
  /**
   * Keeps the claim of an allowed call that has not ended, because its tool has suspended the run. The same call takes it up once, in this
   * process.
   */
  readonly suspend: (call: ToolCall) => void
  /** Executes a call that is allowed, and reports how it ended. Rejects with the error of `execute`. `signal`: default that of `ask`. */
  readonly execute: <Result>(
    call: ToolCall,
    context: Context,
    execute: () => Promise<Result> | Result,
    signal?: AbortSignal
  ) => Promise<Result>
  /** Asks, executes the call if it is allowed, and reports how it ended. Rejects with the error of `execute`. */
  readonly run: <Result>(
    call: ToolCall,
    context: Context,
    execute: (claim: Claim | undefined) => Promise<Result> | Result,
    options?: AskOptions
  ) => Promise<{ readonly verdict: "executed"; readonly result: Result } | Denied | Pending>
}

/** Retries of a question, as in `govern`: an address without a service should fail soon. */
const ASK_RETRIES = 3

/** Calls with one ID and the same content that get steps of their own. Further ones are denied. */
const MAX_REPEATS = 100

/** Longest summary of a step, in UTF-16 code units. */
const MAX_SUMMARY = 500

const warn = ({ call, error, operation }: GateFault): void => {
  const reason = error instanceof Error ? error.message : String(error)
  // oxlint-disable-next-line no-console -- a library that has no logger of its application
  console.warn(`countersign: ${FAULTS[operation]} ${call.tool} (${call.id}): ${reason}`)
}

/** Texts about faults. */
export const FAULTS: Readonly<Record<GateFault["operation"], string>> = {
  ask: "no decision about",
  renew: "lost the claim of",
  report: "no record of the outcome of"
}

/** Ends the wait for a decision: a reviewer asks something that the model is to answer. */
class AskedByReviewer extends Error {
  readonly pending: GovernedStep

  constructor(pending: GovernedStep) {
    super("A reviewer asks about the call")
    this.pending = pending
  }
}

/** The state of a call. */
interface CallState {
  /** Identifies the request for a claim. */
  readonly key: string | undefined
  readonly lease: Lease
  readonly session: string
  /** The claim under which the call is executed. */
  claim?: Claim | undefined
  /** Ends the renewals of the claim. */
  release?: () => void
  /** Aborts the run. */
  signal?: AbortSignal | undefined
}

/**
 * Creates the gate of an adapter. `clock`: that of the renewals. `inBackground`: whether outcomes are reported further in the background while the
 * service is out of reach; otherwise they are faults.
 */
export const makeToolGate = <Context = undefined>(
  options: GateOptions<Context>,
  clock: Clock = backgroundClock,
  { inBackground = true }: { readonly inBackground?: boolean } = {}
): ToolGate<Context> => {
  const {
    afterUnknown = false,
    client,
    leaseSeconds,
    onClaim,
    onMessage,
    recordResults = true,
    repeatedIds = "executed",
    whenUnreachable = "deny"
  } = options
  const onFault = faultNotifier(options.onFault ?? warn)
  const states = new WeakMap<ToolCall, CallState>()
  /** Calls that were allowed without a decision: the service has no step to record their outcomes at. */
  const undecided = new WeakSet<ToolCall>()
  /** Calls whose tools have suspended their runs, by session and step. */
  const suspended = new CallMap<CallState>(({ release }) => release?.())
  /** Steps that wait while the model has a reviewer's question, by session and content. */
  const questioned = new CallMap<string>()

  const stateOf = (
    call: ToolCall,
    session: string,
    { claimKey, mayBeClaimed = false }: AskOptions
  ): CallState => {
    const known = states.get(call)
    if (known?.session === session) return known
    const lease = { lease_seconds: leaseSeconds, since: mayBeClaimed ? undefined : clock.now() }
    const state = { key: claimKey ?? newIdempotencyKey(), session, lease }
    states.set(call, state)
    return state
  }

  const sessionOf = async (context: Context): Promise<string> =>
    typeof options.session === "string" ? options.session : options.session(context)

  const stepIdOf = (call: ToolCall, context: Context): string => options.stepId?.(call, context) ?? call.id

  const stepOf = (call: ToolCall, context: Context): Omit<StepRequest, "step_id"> => {
    const summary = options.summary?.(call, context)
    const actionClass = call.actionClass ?? options.actionClass ?? "write"
    return {
      tool: call.tool,
      action_class: typeof actionClass === "string" ? actionClass : actionClass(call),
      ...(options.taskId === undefined ? {} : { task_id: options.taskId }),
      ...(call.arguments === undefined ? {} : { arguments: toJson(call.arguments) }),
      ...(summary === undefined ? {} : { summary: cutText(summary, MAX_SUMMARY, "…") })
    }
  }

  const decide = async (
    call: ToolCall,
    context: Context,
    askOptions: AskOptions
  ): Promise<{ readonly decision: GovernedStep | GovernedDecision; readonly state: CallState }> => {
    const id = await sessionOf(context)
    const content = stepOf(call, context)
    const callId = stepIdOf(call, context)
    // A model that repeats a call gives it another ID.
    const known = questioned.size === 0 ? undefined : questioned.take(await contentKey(id, content))
    let step_id = known ?? (await callStepId(callId))
    for (let repeat = 1; ; repeat++) {
      const place = `${id} ${step_id}`
      // Continues a tool that suspended its run.
      const resumed = askOptions.claim === false ? undefined : suspended.take(place)
      const state = resumed ?? stateOf(call, id, askOptions)
      try {
        const payload = { step_id, ...content, ...claimOf(call, askOptions) }
        const decision = await decideStep(id, payload, state.key, askOptions, (message) =>
          onMessage?.(message, call, context)
        )
        const hasQuestion = decision.messages !== undefined && askOptions.wait !== false
        if (decision.decision === "pending" && (hasQuestion || step_id === known))
          questioned.set(await contentKey(id, content), step_id)
        states.set(call, state)
        return { decision, state }
      } catch (error) {
        if (resumed !== undefined) suspended.set(place, resumed)
        const isOther = isProblem(error, "STEP_MISMATCH") || (repeatedIds === "new" && isExecuted(error))
        if (!isOther || repeat > MAX_REPEATS) {
          if (step_id === known && !isExecuted(error)) questioned.set(await contentKey(id, content), known)
          throw error
        }
        step_id = await repeatedStepId(callId, content, repeat)
      }
    }
  }

  const claimOf = (call: ToolCall, { claim = true }: AskOptions) =>
    claim
      ? {
          claim,
          ...(leaseSeconds === undefined ? {} : { lease_seconds: leaseSeconds }),
          ...((typeof afterUnknown === "boolean" ? afterUnknown : afterUnknown(call))
            ? { after_unknown: true }
            : {})
        }
      : {}

  const decideStep = async (
    id: string,
    payload: StepRequest,
    idempotencyKey: string | undefined,
    { signal, wait = true }: AskOptions,
    answer: (message: ApprovalMessage) => string | undefined | Promise<string | undefined>
  ): Promise<GovernedStep | GovernedDecision> => {
    const callOptions = signal === undefined ? {} : { signal }
    const headers = stepHeaders(payload, idempotencyKey)
    const step = () => client.sessions.step({ params: { id }, headers, payload }, callOptions)
    if (!wait) return retryUnavailable(step, { signal, retries: ASK_RETRIES })
    const { timeout } = options
    try {
      return await client.govern(id, payload, {
        ...callOptions,
        ...(idempotencyKey === undefined ? {} : { idempotencyKey }),
        ...(timeout === undefined ? {} : { timeout }),
        onMessage: async (message, pending) => {
          const text = await answer(message)
          if (text === undefined) {
            const messages = (pending.messages ?? []).filter(({ number }) => number >= message.number)
            throw new AskedByReviewer({ ...pending, messages })
          }
          return text
        }
      })
    } catch (error) {
      if (error instanceof AskedByReviewer) return error.pending
      if (!isProblem(error, "DECISION_TIMEOUT")) throw error
      return retryUnavailable(step, { signal, retries: ASK_RETRIES }).catch((fault: unknown) => {
        // The call waits for a person: an outage does not allow it.
        throw isOutage(fault) ? error : fault
      })
    }
  }

  const verdictOf = async (
    decision: GovernedStep | GovernedDecision,
    { signal, wait = true }: AskOptions
  ): Promise<Verdict> => {
    if (decision.decision === "allow") return { verdict: "allow", decision, claim: decision.claim }
    if (decision.decision === "pending") {
      const { approval_id, messages } = decision
      if (wait && messages !== undefined && approval_id !== null) {
        const passed = await confirmPassed(approval_id, messages, signal)
        return {
          verdict: "deny",
          cause: "question",
          message: describeQuestion(approval_id, passed),
          decision,
          problem: undefined
        }
      }
      return { verdict: "pending", message: describePending(decision), decision }
    }
    const cause = rejectionCause(decision.decision_source)
    const message = describeDenial(cause, decision)
    return { verdict: "deny", cause, message, decision, problem: undefined }
  }

  /**
   * Tells the reviewers that the model has their messages, and returns all that this covers: others can have come meanwhile. If it fails, the
   * model gets them again.
   */
  const confirmPassed = async (
    approval_id: string,
    messages: ReadonlyArray<ApprovalMessage>,
    signal: AbortSignal | undefined
  ): Promise<ReadonlyArray<ApprovalMessage>> => {
    const params = { id: approval_id }
    const callOptions = signal === undefined ? {} : { signal }
    const last = messages.at(-1)?.number ?? 0
    try {
      const payload = { text: PASSED_TO_MODEL }
      const receipt = await client.approvals.sendMessage({ params, payload }, callOptions)
      if (receipt.number === last + 1) return messages
      const later = await client.approvals.listMessages({ params, query: { after: last } }, callOptions)
      return [...messages, ...coveredBy(receipt, later.messages)]
    } catch {
      signal?.throwIfAborted()
      return messages
    }
  }

  const faultOf =
    (call: ToolCall) =>
    (fault: ExecutionFault): void =>
      onFault({ call, ...fault })

  /** Renews the claim of a call until it has ended, or its run was aborted. */
  const keep = (call: ToolCall, claim: Claim, state: CallState): void => {
    const { lease, session, signal } = state
    state.release?.()
    const params = { id: session, step_id: claim.step_id }
    const execution = executionOf(client.sessions, params, claim.id, { onFault: faultOf(call) })
    const stop = renewWhileRunning(lease, execution, clock)
    const release = () => {
      signal?.removeEventListener("abort", release)
      stop()
    }
    signal?.addEventListener("abort", release)
    if (signal?.aborted === true) release()
    state.release = release
  }

  /** Takes up the claim of a call. Returns why the call is denied, if `onClaim` throws. */
  const takeUp = async (
    call: ToolCall,
    context: Context,
    claim: Claim | undefined,
    state: CallState,
    { renew = true, signal }: AskOptions
  ): Promise<Denied | undefined> => {
    const isResumed = state.claim !== undefined
    state.claim = claim
    state.signal = undefined
    if (claim === undefined) {
      state.release?.()
      return undefined
    }
    try {
      await onClaim?.(claim, call, context)
    } catch (error) {
      // Without an outcome, a person would have to resolve an execution that has not begun.
      await report(call, context, isResumed ? { status: "unknown" } : { status: "failed", error })
      onFault({ call, operation: "ask", error })
      return denied("refused", describeFailure(error), undefined)
    }
    state.signal = signal
    if (renew) keep(call, claim, state)
    return undefined
  }

  const ask: ToolGate<Context>["ask"] = async (call, context, askOptions = {}) => {
    undecided.delete(call)
    try {
      const { decision, state } = await decide(call, context, askOptions)
      const verdict = await verdictOf(decision, askOptions)
      const claim = verdict.verdict === "allow" ? verdict.claim : undefined
      return (await takeUp(call, context, claim, state, askOptions)) ?? verdict
    } catch (error) {
      askOptions.signal?.throwIfAborted()
      const problem = isProblem(error) ? error : undefined
      if (isProblem(error, "STEP_ALREADY_CLAIMED")) {
        const cause = error.state === "completed" ? "executed" : error.state
        return denied(cause, describeHeld(error), problem)
      }
      if (isProblem(error, "STEP_ALREADY_COMPLETED")) return denial("executed", problem)
      onFault({ call, operation: "ask", error })
      // The service did not answer. A request that it refuses is denied whatever the settings.
      if (problem === undefined) return denied("refused", describeFailure(error), undefined)
      if (isProblem(error, "DECISION_TIMEOUT")) return denial("unreachable", problem)
      if (!isTransient(problem)) return denial("refused", problem)
      // A service that is only busy would have decided, perhaps against the call.
      if (whenUnreachable !== "allow" || !isOutage(problem)) return denial("unreachable", problem)
      undecided.add(call)
      return { verdict: "allow", decision: undefined, claim: undefined }
    }
  }

  const report: ToolGate<Context>["report"] = async (call, context, end, claim_id) => {
    const { claim, release, session, signal } = states.get(call) ?? {}
    states.delete(call)
    release?.()
    if (undecided.delete(call)) return
    try {
      const id = session ?? (await sessionOf(context))
      const params = { id, step_id: claim?.step_id ?? (await callStepId(stepIdOf(call, context))) }
      const recorded: ToolEnd = end.status === "succeeded" && !recordResults ? { status: "succeeded" } : end
      const execution = { inBackground, onFault: faultOf(call), signal }
      await reportEnd(recorded, executionOf(client.sessions, params, claim?.id ?? claim_id, execution))
    } catch (error) {
      onFault({ call, operation: "report", error })
    }
  }

  const suspend: ToolGate<Context>["suspend"] = (call) => {
    const state = states.get(call)
    if (state?.claim === undefined) return
    states.delete(call)
    suspended.set(`${state.session} ${state.claim.step_id}`, state)
  }

  const execute: ToolGate<Context>["execute"] = async (call, context, execute, signal) => {
    const state = states.get(call)
    if (state?.claim !== undefined && state.release === undefined) {
      state.signal ??= signal
      keep(call, state.claim, state)
    }
    return runReported(execute, (end) => report(call, context, end))
  }

  return {
    ask,
    report,
    suspend,
    execute,
    run: async (call, context, body, askOptions) => {
      const answer = await ask(call, context, askOptions)
      if (answer.verdict !== "allow") return answer
      return { verdict: "executed", result: await execute(call, context, () => body(answer.claim)) }
    }
  }
}

/** Finds the step of a call that the model makes again. */
const contentKey = async (session: string, content: Omit<StepRequest, "step_id">): Promise<string> =>
  `${session} ${await repeatedStepId("", content, 1)}`

/** Whether the service has the outcome of the step. */
const isExecuted = (error: unknown): boolean =>
  isProblem(error, "STEP_ALREADY_COMPLETED") ||
  (isProblem(error, "STEP_ALREADY_CLAIMED") && error.state === "completed")

const denial = (cause: "executed" | "unreachable" | "refused", problem: Problem | undefined): Denied =>
  denied(cause, describeProblem(cause, problem), problem)

const denied = (cause: DenialCause, message: string, problem: Problem | undefined): Denied => ({
  verdict: "deny",
  cause,
  message,
  decision: undefined,
  problem
})
