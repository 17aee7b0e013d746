import { hasCode, isUnavailable, requestedDelay } from "../isTransient.ts"
import type { StreamOptions } from "../StreamOptions.ts"
import type { AnyApproval, ApprovalListener } from "./approvalWaits.ts"
import type { CallOptions } from "./CallOptions.ts"
import { DecisionTimeout } from "./DecisionTimeout.ts"
import { type Duration, toMillis } from "./Duration.ts"
import type { ApprovalSnapshot, CounterProposal, GovernedStep, StepRequest } from "./generated/Operations.ts"
import { newIdempotencyKey } from "./idempotencyKey.ts"
import { type Clock, linkSignals } from "./wait.ts"

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
export interface WaitOptions extends Pick<StreamOptions, "reconnect">, Pick<CallOptions, "signal"> {
  /**
   * Rejects with {@link DecisionTimeout} after this time; the approval stays pending. Default: no limit other than the
   * rule's own windows.
   */
  readonly timeout?: Duration
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
    rejected: GovernedDecision
  ) => boolean | Promise<boolean>
}

/** What `govern` needs of a step, its answer and its approval, in the form of either client. */
interface AnyStep<Arguments> {
  readonly step_id: string
  readonly summary?: unknown
  readonly arguments?: Arguments | undefined
}
interface AnyAnswer {
  readonly decision: "allow" | "reject" | "pending"
  readonly approval_id: string | null
  readonly reason: string
  readonly proposal?: { readonly arguments?: unknown } | null | undefined
}
interface ClosedApproval extends AnyApproval {
  readonly outcome: "allow" | "reject" | null
}

/** The headers of a step's request: every repetition of one that claims the step has the same key. */
export const stepHeaders = (
  { claim }: Pick<StepRequest, "claim">,
  idempotencyKey = newIdempotencyKey()
): { readonly "idempotency-key"?: string } =>
  claim === true && idempotencyKey !== undefined ? { "idempotency-key": idempotencyKey } : {}

/** The members that a decision adds to the answer to a step. */
interface Decision<Approval> {
  readonly decision: "allow" | "reject"
  readonly approval: Approval | null
}

/** A decided step in the form of either client. */
export type Decided<Arguments, Answer extends AnyAnswer, Approval> = Answer &
  Decision<Approval> & { readonly arguments?: Arguments }

/** Retries of the first request: an address without a service should fail soon. */
const FIRST_RETRIES = 3

/** Delay before the first retry. Each following one doubles up to the maximum, with 20% jitter. */
const FIRST_DELAY_MILLIS = 500
const MAX_DELAY_MILLIS = 30_000

/** The service as one call of `govern` reaches it. */
export interface Governing<Step, Answer, Approval> {
  readonly clock: Clock
  /** Submits a step. */
  readonly submit: (step: Step, signal: AbortSignal) => Promise<Answer>
  /** Listens to the session's approvals. */
  readonly listen: () => ApprovalListener<Approval>
  /** The step that goes on with the arguments of a proposal; undefined if the caller does not accept it. */
  readonly accept: (rejected: Answer & Decision<Approval>, step_id: string) => Promise<Step | undefined>
}

/** Limits of one call of `govern`. */
export interface GovernLimits extends Pick<WaitOptions, "reconnect" | "timeout"> {
  readonly signal: AbortSignal
}

/**
 * Submits a step and returns its decision. While the step is pending, it waits on the session's event stream and then submits the step
 * again: only the service's response counts, which evaluates the rules again. If the caller accepts a reviewer's proposal, it goes on with
 * another step.
 */
export const govern = async <
  Arguments,
  Step extends AnyStep<Arguments>,
  Answer extends AnyAnswer,
  Approval extends ClosedApproval
>(
  governing: Governing<Step, Answer, Approval>,
  step: Step,
  limits: GovernLimits
): Promise<Decided<Arguments, Answer, Approval>> => {
  const { abort, signal, unlink } = linkSignals(limits.signal)
  const timer = new AbortController()
  if (limits.timeout !== undefined) {
    const expire = () => abort(new DecisionTimeout())
    governing.clock.sleep(toMillis(limits.timeout), timer.signal).then(expire, () => undefined)
  }
  try {
    let result = await decide<Arguments, Step, Answer, Approval>(governing, step, { ...limits, signal })
    for (let attempt = 2; attempt < 2 + MAX_PROPOSALS; attempt++) {
      const { decision, proposal } = result
      if (decision !== "reject" || proposal?.arguments === undefined) break
      const next = await governing.accept(result, proposedStepId(step.step_id, attempt))
      if (next === undefined) break
      signal.throwIfAborted()
      result = await decide<Arguments, Step, Answer, Approval>(governing, next, { ...limits, signal })
    }
    return result
  } finally {
    timer.abort()
    unlink()
  }
}

/** The step that goes on with the arguments of a proposal. The agent's summary tells of its own arguments. */
export const proposedStep = <Step extends AnyStep<unknown>, Id extends string, Arguments>(
  { summary: _, ...step }: Step,
  step_id: Id,
  proposed: Arguments
) => ({ ...step, step_id, arguments: proposed })

/** Submits one step until it is decided. */
const decide = async <
  Arguments,
  Step extends AnyStep<Arguments>,
  Answer extends AnyAnswer,
  Approval extends ClosedApproval
>(
  { clock, listen, submit }: Governing<Step, Answer, Approval>,
  step: Step,
  limits: GovernLimits
): Promise<Decided<Arguments, Answer, Approval>> => {
  const { signal } = limits
  const submitStep = () => submit(step, signal)
  // Before the request: the event that decides a step pending now comes after it.
  const listener = listen()
  try {
    let answer = await submitUntilAnswered(submitStep, FIRST_RETRIES, clock, signal)
    let approval: Approval | undefined
    while (!isDecided(answer)) {
      const pending = answer
      approval = await closingOf(listener, pending, limits)
      if (approval === undefined) listener.rewind()
      try {
        answer = await submitUntilAnswered(submitStep, Infinity, clock, signal)
      } catch (error) {
        // Closing a session rejects its pending approvals, and a closed session no longer accepts step requests.
        if (!hasCode(error, "SESSION_CLOSED") || approval?.outcome !== "reject") throw error
        answer = { ...pending, decision: "reject", reason: "Session closed" }
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

const isDecided = <Answer extends AnyAnswer>(
  answer: Answer
): answer is Answer & { readonly decision: "allow" | "reject" } => answer.decision !== "pending"

/** Submits the step again while the service is busy or unreachable. */
const submitUntilAnswered = async <Answer>(
  submit: () => Promise<Answer>,
  retries: number,
  clock: Clock,
  signal: AbortSignal
): Promise<Answer> => {
  for (let attempt = 0; ; attempt++) {
    try {
      return await submit()
    } catch (error) {
      signal.throwIfAborted()
      if (attempt >= retries || !isUnavailable(error)) throw error
      const backoff = FIRST_DELAY_MILLIS * 2 ** Math.min(attempt, 20) * (0.8 + clock.random() * 0.4)
      await clock.sleep(Math.max(Math.min(backoff, MAX_DELAY_MILLIS), requestedDelay(error)), signal)
    }
  }
}

/** Waits for the step's approval to close; undefined if the session closed without it, or the event was deleted. */
const closingOf = async <Approval>(
  listener: ApprovalListener<Approval>,
  { approval_id }: AnyAnswer,
  { reconnect, signal }: GovernLimits
): Promise<Approval | undefined> => {
  try {
    return await listener.closing(approval_id, { signal, ...(reconnect === undefined ? {} : { reconnect }) })
  } catch (error) {
    signal.throwIfAborted()
    // So many events followed that the next one was deleted. The next request returns the decision; if still pending, the stream starts at
    // the oldest retained event.
    if (!hasCode(error, "CURSOR_EXPIRED")) throw error
    return undefined
  }
}

/** The most characters of a step's ID. */
const MAX_LENGTH = 200

/** Proposals that one call of `govern` accepts: reviewers may propose other arguments again and again. */
export const MAX_PROPOSALS = 10

/**
 * The ID of the step that `govern` requests with the arguments of a proposal: `refund~2` after `refund`, then `refund~3`. A program that is
 * started again requests the same steps again, which have their decisions.
 */
export const proposedStepId = (step_id: string, attempt: number): string => {
  const suffix = `~${attempt}`
  // The cut must not leave half of a character.
  return step_id.slice(0, MAX_LENGTH - suffix.length).replace(/[\uD800-\uDBFF]$/u, "") + suffix
}
