import { cutText } from "../../domain/cutText.ts"
import { hasCode } from "../isTransient.ts"
import type { StreamOptions } from "../StreamOptions.ts"
import type { AnyApproval, ApprovalListener, ReviewerSpoke } from "./approvalWaits.ts"
import type { CallOptions } from "./CallOptions.ts"
import { DecisionTimeout } from "./DecisionTimeout.ts"
import { type Duration, toMillis } from "./Duration.ts"
import type {
  ApprovalMessage,
  ApprovalSnapshot,
  CounterProposal,
  GovernedStep,
  StepRequest
} from "./generated/Operations.ts"
import { newIdempotencyKey } from "./idempotencyKey.ts"
import { retryUnavailable } from "./retryUnavailable.ts"
import { type Clock, linkSignals } from "./wait.ts"

/** A decided step. */
export interface GovernedDecision extends GovernedStep {
  /** Whether the agent may execute the step. */
  readonly decision: "allow" | "reject"
  /** The arguments of the step, or of the proposal that was accepted. Absent if there are none. */
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
    rejected: GovernedDecision
  ) => boolean | Promise<boolean>
  /**
   * Answers a message that a reviewer sends while the step waits. The text that it returns is sent as the agent's answer; with `undefined`, none is.
   * The wait goes on afterwards: a message decides nothing. If it throws, the call rejects with its error, and the approval stays pending.
   * Called once for each message that the agent has not answered. Default: messages get no answer.
   */
  readonly onMessage?: (
    message: ApprovalMessage,
    pending: GovernedStep
  ) => string | undefined | Promise<string | undefined>
}

/** What `govern` needs of a step, its answer and its approval, in the form of either client. */
interface AnyStep<Arguments> {
  readonly step_id: string
  readonly summary?: unknown
  readonly arguments?: Arguments | undefined
}
interface AnyAnswer<Message extends AnyMessage> {
  readonly decision: "allow" | "reject" | "pending"
  readonly approval_id: string | null
  readonly reason: string
  readonly proposal?: { readonly arguments?: unknown } | null | undefined
  readonly messages?: ReadonlyArray<Message> | undefined
}
interface AnyMessage {
  readonly number: number
}
interface ClosedApproval extends AnyApproval {
  readonly outcome: "allow" | "reject" | null
}

/** The headers of a step's request: every repetition of one that claims the step has the same key. */
export const stepHeaders = (
  { claim }: Pick<StepRequest, "claim">,
  idempotencyKey?: string
): IdempotencyHeaders => (claim === true ? idempotencyHeaders(idempotencyKey) : {})

interface IdempotencyHeaders {
  readonly "idempotency-key"?: string
}

const idempotencyHeaders = (key = newIdempotencyKey()): IdempotencyHeaders =>
  key === undefined ? {} : { "idempotency-key": key }

/** Most characters of a message. */
const MAX_MESSAGE_LENGTH = 4_000

/** The request that sends an agent's answer to a reviewer. */
export interface Reply {
  readonly params: { readonly id: string }
  readonly headers: IdempotencyHeaders
  readonly payload: { readonly text: string }
}

/** The request for a text, which is cut to the length of a message. All attempts have the same key. */
const replyOf = (approval_id: string, text: string): Reply => ({
  params: { id: approval_id },
  headers: idempotencyHeaders(),
  payload: { text: cutText(text, MAX_MESSAGE_LENGTH, "…") }
})

/** The members that a decision adds to the answer to a step. */
interface Decision<Approval> {
  readonly decision: "allow" | "reject"
  readonly approval: Approval | null
}

/** A decided step in the form of either client. */
export type Decided<Arguments, Answer, Approval> = Answer &
  Decision<Approval> & { readonly arguments?: Arguments }

/** Retries of the first request: an address without a service should fail soon. */
const FIRST_RETRIES = 3

/** The service as one call of `govern` reaches it. */
interface Governing<Step, Answer, Approval, Message> {
  readonly clock: Clock
  /** Submits a step. `after_message`: the last message that the caller has got; undefined: none. */
  readonly submit: (step: Step, signal: AbortSignal, after_message: number | undefined) => Promise<Answer>
  /** Listens to the session's approvals. */
  readonly listen: () => ApprovalListener<Approval | ReviewerSpoke>
  /** Asks the caller to answer a message; undefined: there is no answer. */
  readonly reply: (message: Message, pending: Answer) => Promise<string | undefined>
  /** Sends the answer. */
  readonly send: (reply: Reply, signal: AbortSignal) => Promise<unknown>
  /** The step that goes on with the arguments of a proposal; undefined if the caller does not accept it. */
  readonly accept: (rejected: Answer & Decision<Approval>, step_id: string) => Promise<Step | undefined>
}

/** Limits of one call of `govern`. */
interface GovernLimits extends Pick<WaitOptions, "reconnect" | "timeout"> {
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
  Answer extends AnyAnswer<Message>,
  Approval extends ClosedApproval,
  Message extends AnyMessage
>(
  governing: Governing<Step, Answer, Approval, Message>,
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
    let result = await decide<Arguments, Step, Answer, Approval, Message>(governing, step, {
      ...limits,
      signal
    })
    for (let attempt = 2; attempt < 2 + MAX_PROPOSALS; attempt++) {
      const { decision, proposal } = result
      if (decision !== "reject" || proposal?.arguments === undefined) break
      const next = await governing.accept(result, proposedStepId(step.step_id, attempt))
      if (next === undefined) break
      signal.throwIfAborted()
      result = await decide<Arguments, Step, Answer, Approval, Message>(governing, next, {
        ...limits,
        signal
      })
    }
    return result
  } finally {
    timer.abort()
    unlink()
  }
}

/** The step that goes on with the arguments of a proposal. The summary is dropped: it describes the agent's own arguments. */
export const proposedStep = <Step extends AnyStep<unknown>, Id extends string, Arguments>(
  { summary: _, ...step }: Step,
  step_id: Id,
  proposed: Arguments
) => ({ ...step, step_id, arguments: proposed })

/** Submits one step until it is decided. */
const decide = async <
  Arguments,
  Step extends AnyStep<Arguments>,
  Answer extends AnyAnswer<Message>,
  Approval extends ClosedApproval,
  Message extends AnyMessage
>(
  { clock, listen, reply, send, submit }: Governing<Step, Answer, Approval, Message>,
  step: Step,
  limits: GovernLimits
): Promise<Decided<Arguments, Answer, Approval>> => {
  const { signal } = limits
  let seen: number | undefined
  // A message that came while another was being answered has a smaller number than the answer.
  const submitStep = () => submit(step, signal, seen)
  // Before the request: the event that decides a step pending now comes after it.
  const listener = listen()
  try {
    let answer = await retryUnavailable(submitStep, { retries: FIRST_RETRIES, clock, signal })
    let approval: Approval | undefined
    while (!isDecided(answer)) {
      const pending = answer
      for (const message of pending.messages ?? []) {
        seen = message.number
        const text = await reply(message, pending)
        signal.throwIfAborted()
        if (text === undefined || text.trim() === "" || pending.approval_id === null) continue
        const request = replyOf(pending.approval_id, text)
        await sendReply(() => send(request, signal), clock, signal)
      }
      const change = await changeOf(listener, pending, limits)
      if (change === undefined) listener.rewind()
      approval = change?.outcome === undefined ? undefined : change
      try {
        answer = await retryUnavailable(submitStep, { retries: Infinity, clock, signal })
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

const isDecided = <Answer extends Pick<AnyAnswer<AnyMessage>, "decision">>(
  answer: Answer
): answer is Answer & { readonly decision: "allow" | "reject" } => answer.decision !== "pending"

/** Sends an answer to a reviewer. One that comes too late, or after the last that is allowed, is dropped: the decision matters more. */
const sendReply = async (send: () => Promise<unknown>, clock: Clock, signal: AbortSignal): Promise<void> => {
  try {
    await retryUnavailable(send, { retries: Infinity, clock, signal })
  } catch (error) {
    if (!DROPPED_REPLIES.some((code) => hasCode(error, code))) throw error
  }
}

const DROPPED_REPLIES = ["APPROVAL_ALREADY_DECIDED", "APPROVAL_EXPIRED", "LIMIT_REACHED"]

/** Waits for a change of the step's approval; undefined if the session closed without one, or the event was deleted. */
const changeOf = async <Approval>(
  listener: ApprovalListener<Approval>,
  { approval_id }: Pick<AnyAnswer<AnyMessage>, "approval_id">,
  { reconnect, signal }: GovernLimits
): Promise<Approval | undefined> => {
  try {
    return await listener.change(approval_id, { signal, ...(reconnect === undefined ? {} : { reconnect }) })
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
const MAX_PROPOSALS = 10

/**
 * The ID of the step that `govern` requests with the arguments of a proposal: `refund~2` after `refund`, then `refund~3`. A program that is
 * started again requests the same steps again, which have their decisions.
 */
export const proposedStepId = (step_id: string, attempt: number): string => {
  const suffix = `~${attempt}`
  return cutText(step_id, MAX_LENGTH - suffix.length) + suffix
}
