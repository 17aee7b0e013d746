/** The types of the gate that applications name, which every adapter exports. */
import type { Duration } from "../../client/connect/Duration.ts"
import type { ApprovalMessage, Claim, GovernedStep } from "../../client/connect/generated/Operations.ts"
import type { GovernedDecision } from "../../client/connect/govern.ts"
import type { Problem } from "../../client/connect/Problem.ts"
import type { CountersignClient } from "../../client/connect.ts"

export type { Claim } from "../../client/connect/generated/Operations.ts"

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
  /**
   * The operation of the gate: asking for the decision, renewing the claim while the tool runs, or reporting the outcome of the tool. A claim
   * that cannot be renewed is lost: the outcome becomes unknown, and is recorded as late when the tool has ended.
   */
  readonly operation: "ask" | "renew" | "report"
  readonly error: unknown
}

/** Settings of every adapter. `Context` is the framework's description of the run. */
export interface GateSettings<Context = undefined> {
  /** The client: `connect({ url, key })`, with a key of the preset `runtime`. */
  readonly client: Pick<CountersignClient, "approvals" | "govern" | "sessions">
  /** ID of the agent session that the steps belong to, or how to find it for a run. A resumed run needs the session with which it began. */
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
   * How to treat a call with the ID, tool and arguments of a call that has an outcome. `executed`: it is the same call, as from a framework
   * that replays calls when it resumes a run; it is denied. `new`: it is another call, as from a model server that numbers the calls of each
   * response from `call_0`; it gets its own step and decision. Before the first call has an outcome, the second gets the decision of the first.
   * A call with other arguments is always another call. Default: `executed`.
   */
  readonly repeatedIds?: "executed" | "new"
  /**
   * How long a claim lasts without renewal, in seconds, 1 to 3,600. An allowed call is claimed, so that no other process executes it, and its
   * claim is renewed at a third of this time while the tool runs. If the process ends before the outcome is reported, the execution is unknown
   * after it. Default: 300.
   */
  readonly leaseSeconds?: number
  /**
   * Whether a call is executed again after an attempt whose outcome is unknown, if its rule has `retry_unknown`: only for tools that recognize
   * a repeated request, such as by {@link Claim.idempotency_key}. Default: `false`, a person finds out what happened.
   */
  readonly afterUnknown?: boolean | ((call: ToolCall) => boolean)
  /**
   * Called with the claim of a call before it is executed. Its `idempotency_key` is the same for every attempt of the call. If it throws, the
   * call is denied, and its outcome is recorded as failed.
   */
  readonly onClaim?: (claim: Claim, call: ToolCall, context: Context) => unknown
  /**
   * How long a call waits for a person. After it the call is denied, and the approval stays pending: the same call asks again. Default: until
   * the rule's own windows end.
   */
  readonly timeout?: Duration
  /**
   * Answers a message that a reviewer sends while a call waits, as in `govern`. With `undefined`, and by default, the model gets it: the call is
   * denied with the reviewer's question ({@link DenialCause} `question`), and stays pending. The same call goes on waiting for the decision.
   */
  readonly onMessage?: (
    message: ApprovalMessage,
    call: ToolCall,
    context: Context
  ) => string | undefined | Promise<string | undefined>
  /** Whether results of tools are recorded with the outcome. Default: `true`. Otherwise only success or failure, and the error, are. */
  readonly recordResults?: boolean
  /**
   * What happens to a call if the service cannot be reached, or answers with a status of 500 or above. `allow` executes the call without a
   * decision and without a record of it, and requires `onFault`. A refusal by the service, such as of the key or by a rate limit, always
   * denies, and so does an outage while the call waits for a person. Default: `deny`.
   */
  readonly whenUnreachable?: "deny" | "allow"
  /** Called with every fault. An error of its own is printed, and does not affect the call. Default: a line on `console.warn`. */
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
 * - `person`, `rule`, `model`, `timeout`, `session_closed`: what decided, as {@link GovernedStep.decision_source} says;
 * - `executed`: the step has an outcome already, so the call is not executed again;
 * - `executing`: another process has claimed the step and executes it;
 * - `unknown`: the step may have been executed. A person finds out, in the console or with `executions.resolve`;
 * - `question`: a reviewer asks about the call, which still waits. Nothing was rejected: the same call goes on waiting;
 * - `unreachable`: the service could not be reached, was busy, or had a fault. Nothing was rejected: the same call can be asked again;
 * - `refused`: the service refused the request, such as for a wrong key or a closed session, or a function of the settings threw.
 */
export type DenialCause =
  | "person"
  | "rule"
  | "model"
  | "timeout"
  | "session_closed"
  | "executed"
  | "executing"
  | "unknown"
  | "question"
  | "unreachable"
  | "refused"

/** The call may be executed. */
export interface Allowed {
  readonly verdict: "allow"
  /** The decision. Undefined if the service was down and `whenUnreachable` is `allow`. */
  readonly decision: GovernedStep | undefined
  /** The claim, by which only this caller may execute the call. Undefined without a decision, and if the call was asked about without a claim. */
  readonly claim: Claim | undefined
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
