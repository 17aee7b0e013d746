import { Duration, Effect, type Schema } from "effect"
import type { StepRequest } from "../api/AgentSessions.ts"
import type { ApprovalSnapshot, SessionEvent } from "../api/SessionStream.ts"
import type { GovernedStep } from "../domain/approvals/AgentSession.ts"
import type { CounterProposal } from "../domain/approvals/CounterProposal.ts"
import { type SessionId, StepId } from "../domain/Ids.ts"
import type { CallError, EffectCalls, Operation } from "./Call.ts"
import type { ApprovalWaits } from "./connect/approvalWaits.ts"
import type { DecisionTimeout } from "./connect/DecisionTimeout.ts"
import { govern, proposedStep, stepHeaders } from "./connect/govern.ts"
import { makeRuntime } from "./PromiseRuntime.ts"
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
   * you have stored to get the claim again after a restart; never share it between two agents.
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

/** Builds `govern` from the step operation and the client's waits. */
export const makeGovern =
  (
    step: EffectCalls["sessions"]["step"],
    waits: ApprovalWaits<SessionEvent, ApprovalSnapshot>,
    open: OpenStream
  ): Govern =>
  (id, payload, { acceptProposal, idempotencyKey, reconnect, timeout } = {}) =>
    Effect.flatMap(makeRuntime, (runtime) => {
      const headers = stepHeaders(payload, idempotencyKey)
      return runtime.promise<GovernResult, GovernError>((signal) =>
        govern<Schema.Json, StepRequest, GovernedStep, ApprovalSnapshot>(
          {
            clock: runtime.clock,
            submit: (request, during) =>
              runtime.run(step({ params: { id }, headers, payload: request }), during),
            listen: () => waits.listen(id, eventSource(runtime, id, open)),
            accept: async (rejected, step_id) => {
              const { proposal } = rejected
              if (proposal?.arguments === undefined) return undefined
              const accepted = acceptProposal?.(proposal, rejected) ?? false
              const isAccepted = Effect.isEffect(accepted) ? await runtime.run(accepted, signal) : accepted
              return isAccepted ? proposedStep(payload, StepId.make(step_id), proposal.arguments) : undefined
            }
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
