import type { Duration } from "../client/connect/Duration.ts"
import type { GovernedDecision } from "../client/connect/govern.ts"
import type { GovernedStep, OutcomeReport, StepRequest } from "../client/connect/generated/Operations.ts"
import { isProblem, type Problem } from "../client/connect/Problem.ts"
import type { CountersignClient } from "../client/connect.ts"
import { isUnavailable } from "../client/isTransient.ts"
import { rejectionCause } from "../domain/approvals/describeDecision.ts"
import { callStepId, repeatedStepId } from "../domain/approvals/callStepId.ts"
import { describeDenial, describePending, describeProblem } from "./toolGate/messages.ts"
import { errorText, recordable, toJson } from "./toolGate/recordable.ts"
import { retryUnavailable } from "./toolGate/retryUnavailable.ts"

/** A call of a tool that a model asked for. */
export interface ToolCall {
  /**
   * The framework's ID of the call. It becomes the step's ID; a longer one than 200 characters is shortened. A call with the ID of another call
   * of the session gets a step of its own: see {@link GateSettings.repeatedIds}.
   */
  readonly id: string
  readonly tool: string
  /** The validated arguments, exactly as the tool gets them: the decision is bound to them. */
  readonly arguments: unknown
  /** The call's class of actions. Default: that of the settings. */
  readonly actionClass?: string
}

/** Something that went wrong between the gate and the service. */
export interface GateFault {
  readonly call: Pick<ToolCall, "id" | "tool">
  /** The operation of the gate: asking for the decision, or reporting the outcome of the tool. */
  readonly operation: "ask" | "report"
  readonly error: unknown
}

/** Settings of every adapter. `Context` is the framework's description of the run. */
export interface GateSettings<Context = undefined> {
  /** The client: `connect({ url, key })`, with a key of the preset `runtime`. */
  readonly client: Pick<CountersignClient, "govern" | "sessions">
  /** ID of the agent session that the steps belong to, or how to find it for a run. Resume a run with the session that it began with. */
  readonly session: string | ((context: Context) => string | Promise<string>)
  /** The class of actions that rules match, by tool. Default: `write` for every tool. */
  readonly actionClass?: string | ((call: ToolCall) => string)
  /** The task of the steps. Default: the session's. */
  readonly taskId?: string
  /**
   * The effect of a call, in one sentence for the person who decides, who sees it as the agent's claim. Longer ones are cut to 500 characters.
   * Default: none; a rule can have a template instead, which shows the arguments.
   */
  readonly summary?: (call: ToolCall, context: Context) => string | undefined
  /** The step's ID. Default: the ID of the call. It must be the same when the run is resumed, so it must not be random. */
  readonly stepId?: (call: ToolCall, context: Context) => string
  /**
   * What a call is that has the ID, tool and arguments of a call with an outcome. `executed`: the same call, of a framework that repeats the
   * calls of a run which it resumes. It is denied. `new`: another call, of a model server that numbers the calls of each response anew
   * (`call_0`). It gets a step and a decision of its own; before the first call has an outcome, it gets that call's decision. Other arguments
   * are another call in any case. Default: `executed`.
   */
  readonly repeatedIds?: "executed" | "new"
  /**
   * How long a call waits for a person. After it the call is denied, and the approval stays pending: the same call asks again. Default: until
   * the rule's own windows end.
   */
  readonly timeout?: Duration
  /** Whether results of tools are recorded with the outcome. Default: `true`. Otherwise only success or failure, and the error, are. */
  readonly recordResults?: boolean
  /**
   * What happens to a call if the service cannot be reached, is busy, or has a fault of its own. `allow` executes the call without a
   * decision and without a record of it, and requires `onFault`. A refusal by the service, such as of the key, always denies. Default: `deny`.
   */
  readonly whenUnreachable?: "deny" | "allow"
  /** Called with every fault. Default: a line on `console.warn`. */
  readonly onFault?: (fault: GateFault) => void
}

/** Settings. `whenUnreachable: "allow"` requires `onFault`, so that calls without a decision are noticed. */
export type GateOptions<Context = undefined> = GateSettings<Context> &
  (
    | { readonly whenUnreachable?: "deny" }
    | { readonly whenUnreachable: "allow"; readonly onFault: (fault: GateFault) => void }
  )

/**
 * Why a call is denied:
 *
 * - `person`, `rule`, `timeout`, `session_closed`: what decided, as {@link GovernedStep.decision_source} says;
 * - `executed`: the step has an outcome already, so the call is not executed again;
 * - `unreachable`: the service gave no answer;
 * - `refused`: the service refused the request, such as for a wrong key or a closed session.
 */
export type DenialCause =
  | "person"
  | "rule"
  | "timeout"
  | "session_closed"
  | "executed"
  | "unreachable"
  | "refused"

/** The call may be executed. */
export interface Allowed {
  readonly verdict: "allow"
  /** The decision. Undefined if the service was not reached and `whenUnreachable` is `allow`. */
  readonly decision: GovernedStep | undefined
}

/** The call must not be executed. */
export interface Denied {
  readonly verdict: "deny"
  readonly cause: DenialCause
  /** Text for the model: the reason of the denial, and its options. */
  readonly message: string
  /** The decision, if the service gave one. It has the arguments that a person proposed instead, if any. */
  readonly decision: GovernedDecision | GovernedStep | undefined
  /** Why the service gave no decision, if it gave none. */
  readonly problem: Problem | undefined
}

/** The approval is pending. The same call can be asked again. */
export interface Pending {
  readonly verdict: "pending"
  /** What to tell the model if the run does not wait longer. */
  readonly message: string
  readonly decision: GovernedStep
}

export type Verdict = Allowed | Denied | Pending

/** How one call is asked. */
export interface AskOptions {
  /** Aborts the wait; `ask` rejects with its reason, and the approval stays pending. */
  readonly signal?: AbortSignal | undefined
  /** `false`: returns at once, with {@link Pending} if a person has to decide. Default: `true`. */
  readonly wait?: boolean
}

/** How a tool ended. */
export type ToolEnd =
  | { readonly status: "succeeded"; readonly result?: unknown }
  | { readonly status: "failed"; readonly error: unknown }

/** Asks the service before tools are called, and reports how they ended. The part that all adapters share. */
export interface ToolGate<Context> {
  /**
   * Asks whether a call may be executed, and waits for the person who decides. Rejects only if its signal was aborted: every other fault
   * is a verdict. Calls that wait share one stream of the session's events.
   */
  readonly ask: (call: ToolCall, context: Context, options?: AskOptions) => Promise<Verdict>
  /** Reports how an allowed call ended. Never rejects: what cannot be recorded is a fault (`onFault`). */
  readonly report: (call: ToolCall, context: Context, end: ToolEnd) => Promise<void>
  /** Executes a call that is allowed, and reports how it ended. Rejects with the error of `execute`. */
  readonly execute: <Result>(
    call: ToolCall,
    context: Context,
    execute: () => Promise<Result> | Result
  ) => Promise<Result>
  /** Asks, executes the call if it is allowed, and reports how it ended. Rejects with the error of `execute`. */
  readonly run: <Result>(
    call: ToolCall,
    context: Context,
    execute: () => Promise<Result> | Result,
    options?: AskOptions
  ) => Promise<{ readonly verdict: "executed"; readonly result: Result } | Denied | Pending>
}

/** Retries of a question, as in `govern`: an address without a service should fail soon. */
const ASK_RETRIES = 3

/** Retries of a report, for a service that restarts: about 15 seconds together. */
const REPORT_RETRIES = 5

/** Calls with one ID and the same content that get steps of their own. Further ones are denied. */
const MAX_REPEATS = 100

/** Longest summary of a step, in UTF-16 code units. */
const MAX_SUMMARY = 500

/** Cuts a summary without splitting a character. */
const cutSummary = (text: string): string =>
  text.length <= MAX_SUMMARY ? text : `${text.slice(0, MAX_SUMMARY - 1).replace(/[\uD800-\uDBFF]$/u, "")}…`

const warn = ({ call, error, operation }: GateFault): void => {
  const reason = error instanceof Error ? error.message : String(error)
  const name = `${call.tool} (${call.id})`
  // oxlint-disable-next-line no-console -- a library that has no logger of its application
  console.warn(
    operation === "ask"
      ? `countersign: no decision about ${name}: ${reason}`
      : `countersign: the outcome of ${name} was not recorded: ${reason}`
  )
}

/** Creates the gate of an adapter. */
export const makeToolGate = <Context = undefined>(options: GateOptions<Context>): ToolGate<Context> => {
  const {
    client,
    onFault = warn,
    recordResults = true,
    repeatedIds = "executed",
    whenUnreachable = "deny"
  } = options
  /** The steps of calls whose ID belonged to another step. */
  const otherSteps = new WeakMap<ToolCall, string>()

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
      ...(summary === undefined ? {} : { summary: cutSummary(summary) })
    }
  }

  const decide = async (
    call: ToolCall,
    context: Context,
    askOptions: AskOptions
  ): Promise<GovernedStep | GovernedDecision> => {
    const id = await sessionOf(context)
    const content = stepOf(call, context)
    const callId = stepIdOf(call, context)
    let step_id = await callStepId(callId)
    for (let repeat = 1; ; repeat++) {
      try {
        return await decideStep(id, { step_id, ...content }, askOptions)
      } catch (error) {
        const isOther =
          isProblem(error, "STEP_MISMATCH") ||
          (repeatedIds === "new" && isProblem(error, "STEP_ALREADY_COMPLETED"))
        if (!isOther || repeat > MAX_REPEATS) throw error
        step_id = await repeatedStepId(callId, content, repeat)
        otherSteps.set(call, step_id)
      }
    }
  }

  const decideStep = async (
    id: string,
    payload: StepRequest,
    { signal, wait = true }: AskOptions
  ): Promise<GovernedStep | GovernedDecision> => {
    const callOptions = signal === undefined ? {} : { signal }
    const step = () => client.sessions.step({ params: { id }, payload }, callOptions)
    if (!wait) return retryUnavailable(step, { signal, retries: ASK_RETRIES })
    const { timeout } = options
    try {
      return await client.govern(
        id,
        payload,
        timeout === undefined ? callOptions : { ...callOptions, timeout }
      )
    } catch (error) {
      if (!isProblem(error, "DECISION_TIMEOUT")) throw error
      return retryUnavailable(step, { signal, retries: ASK_RETRIES })
    }
  }

  const verdictOf = (decision: GovernedStep | GovernedDecision): Verdict => {
    if (decision.decision === "allow") return { verdict: "allow", decision }
    if (decision.decision === "pending") {
      return { verdict: "pending", message: describePending(decision), decision }
    }
    const cause = rejectionCause(decision.decision_source)
    const message = describeDenial(cause, decision)
    return { verdict: "deny", cause, message, decision, problem: undefined }
  }

  const ask: ToolGate<Context>["ask"] = async (call, context, askOptions = {}) => {
    try {
      return verdictOf(await decide(call, context, askOptions))
    } catch (error) {
      askOptions.signal?.throwIfAborted()
      const problem = isProblem(error) ? error : undefined
      if (isProblem(error, "STEP_ALREADY_COMPLETED")) return denial("executed", problem)
      onFault({ call, operation: "ask", error })
      // The service did not answer. A request that it refuses is denied whatever the settings.
      const isUnreachable = isUnavailable(error) || (problem !== undefined && statusOf(problem) >= 500)
      if (isUnreachable && whenUnreachable === "allow") return { verdict: "allow", decision: undefined }
      return denial(isUnreachable ? "unreachable" : "refused", problem)
    }
  }

  const report: ToolGate<Context>["report"] = async (call, context, end) => {
    try {
      const id = await sessionOf(context)
      const payload: OutcomeReport =
        end.status === "failed"
          ? { status: "failed", error: errorText(end.error) }
          : {
              status: "succeeded",
              ...(recordResults && end.result !== undefined ? { result: recordable(end.result) } : {})
            }
      const step_id = otherSteps.get(call) ?? (await callStepId(stepIdOf(call, context)))
      const params = { id, step_id }
      await retryUnavailable(() => client.sessions.reportOutcome({ params, payload }), {
        retries: REPORT_RETRIES
      })
    } catch (error) {
      // A report whose response was lost is sent again: the first one counts.
      if (!isProblem(error, "STEP_ALREADY_COMPLETED")) onFault({ call, operation: "report", error })
    }
  }

  const execute: ToolGate<Context>["execute"] = async (call, context, execute) => {
    let result
    try {
      result = await execute()
    } catch (error) {
      await report(call, context, { status: "failed", error })
      throw error
    }
    await report(call, context, { status: "succeeded", result })
    return result
  }

  return {
    ask,
    report,
    execute,
    run: async (call, context, body, askOptions) => {
      const answer = await ask(call, context, askOptions)
      if (answer.verdict !== "allow") return answer
      return { verdict: "executed", result: await execute(call, context, body) }
    }
  }
}

const statusOf = (problem: Problem): number => ("status" in problem ? problem.status : 0)

const denial = (cause: "executed" | "unreachable" | "refused", problem: Problem | undefined): Denied => ({
  verdict: "deny",
  cause,
  message: describeProblem(cause, problem),
  decision: undefined,
  problem
})
