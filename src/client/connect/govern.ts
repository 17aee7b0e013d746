import type { Duration } from "effect"
import { isUnavailable, requestedDelay } from "../isTransient.ts"
import type { StreamOptions } from "../StreamOptions.ts"
import type { CallOptions } from "./CallOptions.ts"
import { DecisionTimeout } from "./DecisionTimeout.ts"
import { MAX_PROPOSALS, proposedStepId } from "../proposedStepId.ts"
import type { ApprovalSnapshot, CounterProposal, GovernedStep, StepRequest } from "./generated/Operations.ts"
import { isProblem } from "./Problem.ts"
import type { ApprovalListener, ApprovalWaits } from "./approvalWaits.ts"
import { type AbortSource, linkSignals, sleep, toMillis } from "./wait.ts"

/** A decided step. */
export interface GovernedDecision extends GovernedStep {
  /** Whether the agent may execute the step. */
  readonly decision: "allow" | "reject"
  /** The arguments that the decision is about: those of the step, or of the proposal that was accepted. Absent if there are none. */
  readonly arguments?: StepRequest["arguments"]
  /** The closed approval, including who decided and their comment; null if `govern` did not have to wait for one. */
  readonly approval: ApprovalSnapshot | null
}

/** Options of the wait for a decision. */
export interface WaitOptions extends Pick<StreamOptions, "reconnect">, CallOptions {
  /**
   * Rejects with {@link DecisionTimeout} after this time; the approval stays pending. Default: no limit other than the
   * rule's own windows.
   */
  readonly timeout?: Duration.Input
  /**
   * Whether to go on with the arguments that a reviewer proposed when rejecting the step. If so, another step is requested with them, whose
   * ID is that of the step and `~2`, and its decision is returned: use the `step_id` and the `arguments` of the result. Default: a rejected
   * step is returned with its `proposal`.
   */
  readonly acceptProposal?: (
    proposal: CounterProposal,
    rejected: GovernedDecision
  ) => boolean | Promise<boolean>
}

/** Retries of the first request: an address without a service should fail soon. */
const FIRST_RETRIES = 3

/** Delay before the first retry. Each following one doubles up to the maximum, with 20% jitter. */
const FIRST_DELAY_MILLIS = 500
const MAX_DELAY_MILLIS = 30_000

/** Submits a step. */
type Submit = (step: StepRequest, signal: AbortSignal) => Promise<GovernedStep>

/**
 * Submits a step and returns its decision. While the step is pending, it waits on the session's event stream and then submits the step
 * again: only the service's response counts, which evaluates the rules again. If the caller accepts a reviewer's proposal, it goes on with
 * another step.
 */
export const govern = async (
  submit: Submit,
  waits: ApprovalWaits,
  id: string,
  step: StepRequest,
  options: WaitOptions,
  closed: AbortSource
): Promise<GovernedDecision> => {
  const { abort, signal, unlink } = linkSignals(closed, options.signal)
  const timer =
    options.timeout === undefined
      ? undefined
      : setTimeout(() => abort(new DecisionTimeout()), toMillis(options.timeout))
  try {
    let result = await decide(submit, waits, id, step, { ...options, signal })
    for (let attempt = 2; attempt < 2 + MAX_PROPOSALS; attempt++) {
      const { decision, proposal } = result
      if (decision !== "reject" || proposal?.arguments === undefined) break
      if ((await options.acceptProposal?.(proposal, result)) !== true) break
      signal.throwIfAborted()
      const step_id = proposedStepId(step.step_id, attempt)
      // The agent's summary tells of its own arguments.
      const { summary: _, ...proposed } = step
      const next = { ...proposed, step_id, arguments: proposal.arguments }
      result = await decide(submit, waits, id, next, { ...options, signal })
    }
    return result
  } finally {
    clearTimeout(timer)
    unlink()
  }
}

/** Submits one step until it is decided. */
const decide = async (
  submit: Submit,
  waits: ApprovalWaits,
  id: string,
  step: StepRequest,
  options: WaitOptions & { readonly signal: AbortSignal }
): Promise<GovernedDecision> => {
  const { signal } = options
  const submitStep = () => submit(step, signal)
  // Before the request: the event that decides a step pending now comes after it.
  const listener = waits.listen(id)
  try {
    let answer = await submitUntilAnswered(submitStep, FIRST_RETRIES, signal)
    let approval: ApprovalSnapshot | undefined
    while (!isDecided(answer)) {
      const pending = answer
      approval = await closingOf(listener, pending, options)
      if (approval === undefined) listener.rewind()
      try {
        answer = await submitUntilAnswered(submitStep, Infinity, signal)
      } catch (error) {
        // Closing a session rejects its pending approvals, and a closed session no longer accepts step requests.
        if (!isProblem(error, "SESSION_CLOSED") || approval?.outcome !== "reject") throw error
        answer = { ...pending, decision: "reject", reason: error.title }
      }
    }
    return {
      ...answer,
      ...(step.arguments === undefined ? {} : { arguments: step.arguments }),
      approval: approval ?? null
    }
  } finally {
    listener.end()
  }
}

const isDecided = (
  answer: GovernedStep
): answer is GovernedStep & { readonly decision: GovernedDecision["decision"] } =>
  answer.decision !== "pending"

/** Submits the step again while the service is busy or unreachable. */
const submitUntilAnswered = async (
  submit: () => Promise<GovernedStep>,
  retries: number,
  signal: AbortSignal
): Promise<GovernedStep> => {
  for (let attempt = 0; ; attempt++) {
    try {
      return await submit()
    } catch (error) {
      signal.throwIfAborted()
      if (attempt >= retries || !isUnavailable(error)) throw error
      const backoff = FIRST_DELAY_MILLIS * 2 ** Math.min(attempt, 20) * (0.8 + Math.random() * 0.4)
      await sleep(Math.max(Math.min(backoff, MAX_DELAY_MILLIS), requestedDelay(error)), signal)
    }
  }
}

/** Waits for the step's approval to close; undefined if the session closed without it, or the event was deleted. */
const closingOf = async (
  listener: ApprovalListener,
  { approval_id }: GovernedStep,
  { reconnect, signal }: WaitOptions & { readonly signal: AbortSignal }
): Promise<ApprovalSnapshot | undefined> => {
  try {
    return await listener.closing(approval_id, { signal, ...(reconnect === undefined ? {} : { reconnect }) })
  } catch (error) {
    signal.throwIfAborted()
    // So many events followed that the next one was deleted. The next request returns the decision; if still pending, the stream starts at
    // the oldest retained event.
    if (!isProblem(error, "CURSOR_EXPIRED")) throw error
    return undefined
  }
}
