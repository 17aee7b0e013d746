import { Cause, Duration, Effect, Exit, type Schema } from "effect"
import type { StepRequest } from "../api/AgentSessions.ts"
import type { ApprovalSnapshot, SessionEvent } from "../api/SessionStream.ts"
import type { Claim, GovernedStep } from "../domain/approvals/AgentSession.ts"
import type { ApprovalMessage } from "../domain/approvals/ApprovalMessage.ts"
import type { CounterProposal } from "../domain/approvals/CounterProposal.ts"
import { ApprovalId, type SessionId, StepId } from "../domain/Ids.ts"
import type { CallError, EffectCalls, Operation } from "./Call.ts"
import type { ApprovalWaits, ReviewerSpoke } from "./connect/approvalWaits.ts"
import type { DecisionTimeout } from "./connect/DecisionTimeout.ts"
import {
  type Execution,
  type ExecutionFault,
  faultNotifier,
  renewWhileRunning,
  reportEnd,
  requestedLease,
  type ToolEnd
} from "./connect/execute.ts"
import { govern, proposedStep, stepHeaders } from "./connect/govern.ts"
import { never } from "./connect/wait.ts"
import { makeRuntime } from "./PromiseRuntime.ts"
import { CallRetryOptions } from "./retry.ts"
import { eventSource, type EventStreamOptions, type OpenStream, type StreamError } from "./stream.ts"

/** A decided step. */
export interface GovernResult extends GovernedStep {
  readonly decision: "allow" | "reject"
  /** The arguments that the decision is about: the step's, or the accepted proposal's. Absent if there are none. */
  readonly arguments?: Schema.Json
  /** The closed approval, including who decided and their comment; null if `govern` did not have to wait for one. */
  readonly approval: ApprovalSnapshot | null
}

/** Options of the wait for a decision. */
export interface GovernOptions extends Pick<EventStreamOptions, "reconnect"> {
  /** Fails with {@link DecisionTimeout} after this time; the approval stays pending. Default: no limit other than the rule's own windows. */
  readonly timeout?: Duration.Input
  /**
   * Identifies the request of a step with `claim`, which is repeated with it and then gets the same claim. Default: a random one. Pass one that
   * you have stored to get the claim again after a restart; never share it between two agents. The lease of that claim is not extended:
   * `execute` renews it at once, and after `govern` the caller has to.
   */
  readonly idempotencyKey?: string
  /**
   * Whether to go on with the arguments that a reviewer proposed when rejecting the step. If so, another step is requested with them, whose
   * ID is that of the step and `~2`, and its decision is returned: use the `step_id` and the `arguments` of the result. Default: a rejected
   * step is returned with its `proposal`.
   */
  readonly acceptProposal?: (
    proposal: CounterProposal,
    rejected: GovernResult
  ) => boolean | Effect.Effect<boolean>
  /**
   * Answers a message that a reviewer sends while the step waits. The text that it returns is sent as the agent's answer; with `undefined`, none is.
   * The wait goes on afterwards: a message decides nothing. Called once for each message that the agent has not answered. Default: messages
   * get no answer.
   */
  readonly onMessage?: (
    message: ApprovalMessage,
    pending: GovernedStep
  ) => string | undefined | Effect.Effect<string | undefined>
}

/** Why the decision is unknown: a problem of the step, an error of the stream, or a timeout. */
export type GovernError = CallError<Operation<"sessions", "step">> | StreamError | DecisionTimeout

/**
 * Requests a step and returns its decision. While the step is pending, it waits on the session's event stream and then requests the step
 * again: only the service's response counts, which evaluates the rules again. Requesting a step is idempotent, so a request is retried if
 * the service is busy or unreachable: three times before the first response, without limit afterwards. With `claim` in the step, an allowed
 * one is claimed for this call alone, also if a response was lost.
 */
export type Govern = (
  id: SessionId,
  step: StepRequest,
  options?: GovernOptions
) => Effect.Effect<GovernResult, GovernError>

/** A step that the caller alone may execute. */
export interface ClaimedResult extends GovernResult {
  readonly decision: "allow"
  readonly claim: Claim
}

/** Options of `execute`. */
export interface ExecuteEffectOptions extends GovernOptions {
  /** Runs for every fault. Default: a warning in the log. */
  readonly onFault?: (fault: ExecutionFault) => Effect.Effect<void>
}

/**
 * Requests a step with a claim, waits for its decision, executes it if it is allowed, and reports the outcome. No other process executes the
 * step: the claim is renewed while the tool runs. If this process ends or the effect is interrupted before the outcome is reported, the execution
 * is unknown, and a person finds out what happened.
 */
export type Execute = <A, E, R>(
  id: SessionId,
  step: StepRequest,
  tool: (allowed: ClaimedResult) => Effect.Effect<A, E, R>,
  options?: ExecuteEffectOptions
) => Effect.Effect<
  (ClaimedResult & { readonly result: A }) | (GovernResult & { readonly decision: "reject" }),
  GovernError | E,
  R
>

/** Builds `execute` from `govern` and the operations on a claim. */
export const makeExecute =
  (govern: Govern, { renewClaim, reportOutcome }: EffectCalls["sessions"]): Execute =>
  <A, E, R>(
    id: SessionId,
    step: StepRequest,
    tool: (allowed: ClaimedResult) => Effect.Effect<A, E, R>,
    { onFault = warn, ...options }: ExecuteEffectOptions = {}
  ) =>
    Effect.gen(function* () {
      const runtime = yield* makeRuntime
      const lease = requestedLease(step, options.idempotencyKey, runtime.clock)
      const { claim, decision, ...rest } = yield* govern(id, { ...step, claim: true }, options)
      if (decision === "reject") return { ...rest, decision }
      // Only a service that knows no claims answers without one.
      if (claim === undefined) return yield* Effect.die(new TypeError("The service did not claim the step"))
      const allowed = { ...rest, decision, claim }
      const params = { id, step_id: rest.step_id }
      const execution: Execution = {
        onFault: faultNotifier(async (fault) => runtime.run(onFault(fault), never)),
        renew: (lease_seconds, timeout, signal) =>
          runtime.run(
            renewClaim({ params, payload: { claim_id: claim.id, lease_seconds } }).pipe(
              Effect.provideService(CallRetryOptions, { timeout, retries: 0 })
            ),
            signal
          ),
        report: (outcome) =>
          runtime.run(reportOutcome({ params, payload: { ...outcome, claim_id: claim.id } }), never)
      }
      const result = yield* Effect.acquireUseRelease(
        Effect.sync(() => renewWhileRunning(lease, execution, runtime.clock)),
        () => tool(allowed),
        (release, exit) =>
          Effect.promise(async () => {
            release()
            await reportEnd(endOf(exit), execution)
          })
      )
      return { ...allowed, result }
    })

/** How a tool ended. The progress of an interrupted one is unknown. */
const endOf = (exit: Exit.Exit<unknown, unknown>): ToolEnd => {
  if (Exit.isSuccess(exit)) return { status: "succeeded", result: exit.value }
  return Cause.hasInterrupts(exit.cause)
    ? { status: "unknown" }
    : { status: "failed", error: Cause.squash(exit.cause) }
}

const warn = ({ error, operation }: ExecutionFault): Effect.Effect<void> =>
  Effect.logWarning(operation === "renew" ? "A claim was lost" : "An outcome was not recorded", error)

/** Builds `govern` from the operations and the client's waits. */
export const makeGovern =
  (
    {
      sendMessage,
      step
    }: Pick<EffectCalls["sessions"], "step"> & Pick<EffectCalls["approvals"], "sendMessage">,
    waits: ApprovalWaits<SessionEvent, ApprovalSnapshot | ReviewerSpoke>,
    open: OpenStream
  ): Govern =>
  (id, payload, { acceptProposal, idempotencyKey, onMessage, reconnect, timeout } = {}) =>
    Effect.flatMap(makeRuntime, (runtime) => {
      const headers = stepHeaders(payload, idempotencyKey)
      return runtime.promise<GovernResult, GovernError>((signal) =>
        govern<Schema.Json, StepRequest, GovernedStep, ApprovalSnapshot, ApprovalMessage>(
          {
            clock: runtime.clock,
            submit: (request, during, after_message) =>
              runtime.run(
                step({
                  params: { id },
                  headers,
                  payload: request,
                  ...(after_message === undefined ? {} : { query: { after_message } })
                }),
                during
              ),
            listen: () => waits.listen(id, eventSource(runtime, id, open)),
            accept: async (rejected, step_id) => {
              const { proposal } = rejected
              if (proposal?.arguments === undefined) return undefined
              const accepted = acceptProposal?.(proposal, rejected) ?? false
              const isAccepted = Effect.isEffect(accepted) ? await runtime.run(accepted, signal) : accepted
              return isAccepted ? proposedStep(payload, StepId.make(step_id), proposal.arguments) : undefined
            },
            reply: async (message, pending) => {
              const text = onMessage?.(message, pending)
              return Effect.isEffect(text) ? runtime.run(text, signal) : text
            },
            send: ({ params, ...reply }, during) =>
              runtime.run(sendMessage({ ...reply, params: { id: ApprovalId.make(params.id) } }), during)
          },
          payload,
          {
            signal,
            ...(reconnect === undefined ? {} : { reconnect: Duration.toMillis(reconnect) }),
            ...(timeout === undefined ? {} : { timeout: Duration.toMillis(timeout) })
          }
        )
      )
    })
