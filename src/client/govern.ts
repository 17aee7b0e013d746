import { type Cause, Duration, Effect, Schedule, type Schema } from "effect"
import type { StepRequest } from "../api/AgentSessions.ts"
import type { ApprovalSnapshot } from "../api/SessionStream.ts"
import type { GovernedStep } from "../domain/approvals/AgentSession.ts"
import type { CounterProposal } from "../domain/approvals/CounterProposal.ts"
import { type SessionId, StepId } from "../domain/Ids.ts"
import type { ApprovalWaits } from "./approvalWaits.ts"
import type { EffectCalls, CallError, Operation } from "./Call.ts"
import { isUnavailable, requestedDelay } from "./isTransient.ts"
import { MAX_PROPOSALS, proposedStepId } from "./proposedStepId.ts"
import type { StreamError } from "./stream.ts"
import type { StreamOptions } from "./StreamOptions.ts"

/** A decided step. */
export interface GovernResult extends GovernedStep {
  readonly decision: "allow" | "reject"
  /** The arguments that the decision is about: the step's, or the accepted proposal's. Absent if there are none. */
  readonly arguments?: Schema.Json
  /** The closed approval, including who decided and their comment; null if `govern` did not have to wait for one. */
  readonly approval: ApprovalSnapshot | null
}

/** Options of the wait for a decision. */
export interface GovernOptions extends Pick<StreamOptions, "reconnect"> {
  /** Fails with a `TimeoutError` after this time; the approval stays pending. Default: no limit other than the rule's own windows. */
  readonly timeout?: Duration.Input
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
export type GovernError = CallError<Operation<"sessions", "step">> | StreamError | Cause.TimeoutError

/**
 * Requests a step and returns its decision. While the step is pending, it waits on the session's event stream and then requests the step
 * again: only the service's response counts, which evaluates the rules again. Requesting a step is idempotent, so a request is retried if
 * the service is busy or unreachable: three times before the first response, without limit afterwards.
 */
export type Govern = (
  id: SessionId,
  step: StepRequest,
  options?: GovernOptions
) => Effect.Effect<GovernResult, GovernError>

/** Retries of the first request: an address without a service should fail soon. */
const FIRST_RETRIES = 3

/** Exponential backoff with jitter between retries, at least as long as `Retry-After`. */
const backoff = Schedule.exponential("500 millis").pipe(
  Schedule.setInputType<unknown>(),
  Schedule.jittered,
  Schedule.modifyDelay(({ duration, input }) =>
    Effect.succeed(Duration.max(Duration.min(duration, MAX_DELAY), Duration.millis(requestedDelay(input))))
  )
)

/** Maximum backoff that the service did not ask for. */
const MAX_DELAY = Duration.seconds(30)

/** Builds `govern` from the step operation and the client's waits. */
export const makeGovern =
  (step: EffectCalls["sessions"]["step"], waits: ApprovalWaits): Govern =>
  (id, payload, options = {}) => {
    const decide = Effect.fnUntraced(function* (request: StepRequest) {
      const once = step({ params: { id }, payload: request })
      const retried = Effect.retry(once, { schedule: backoff, while: isUnavailable })
      // Before the request: the event that decides a step pending now comes after it.
      const listener = yield* waits.listen(id)
      let answer = yield* Effect.retry(once, {
        schedule: backoff,
        while: isUnavailable,
        times: FIRST_RETRIES
      })
      let approval: ApprovalSnapshot | undefined
      while (!isDecided(answer)) {
        const pending = answer
        approval = yield* listener.closing(pending.approval_id, options.reconnect).pipe(
          // So many events followed that the next one was deleted. The next request returns the decision; if still
          // pending, the stream starts at the oldest retained event.
          Effect.catchTag("CURSOR_EXPIRED", () => Effect.undefined)
        )
        if (approval === undefined) yield* listener.rewind
        answer = yield* Effect.catchTag(retried, "SESSION_CLOSED", (problem) =>
          // Closing a session rejects its pending approvals, and a closed session no longer accepts step requests.
          approval?.outcome === "reject"
            ? Effect.succeed<GovernedStep>({ ...pending, decision: "reject", reason: problem.title })
            : Effect.fail(problem)
        )
      }
      return {
        ...answer,
        ...(request.arguments === undefined ? {} : { arguments: request.arguments }),
        approval: approval ?? null
      }
    }, Effect.scoped)
    const decided = Effect.gen(function* () {
      let request = payload
      let result: GovernResult = yield* decide(request)
      for (let attempt = 2; attempt < 2 + MAX_PROPOSALS; attempt++) {
        const { decision, proposal } = result
        if (decision !== "reject" || proposal?.arguments === undefined) return result
        const accepted = options.acceptProposal?.(proposal, result) ?? false
        if (!(Effect.isEffect(accepted) ? yield* accepted : accepted)) return result
        const step_id = StepId.make(proposedStepId(payload.step_id, attempt))
        // The agent's summary tells of its own arguments.
        const { summary: _, ...proposed } = payload
        request = { ...proposed, step_id, arguments: proposal.arguments }
        result = yield* decide(request)
      }
      return result
    })
    return options.timeout === undefined ? decided : Effect.timeout(decided, options.timeout)
  }

const isDecided = (
  answer: GovernedStep
): answer is GovernedStep & { readonly decision: GovernResult["decision"] } => answer.decision !== "pending"
