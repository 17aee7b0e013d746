import { type Cause, Duration, Effect, Option, Schedule, Stream } from "effect"
import type { StepRequest } from "../api/AgentSessions.ts"
import type { ApprovalSnapshot } from "../api/SessionStream.ts"
import type { GovernedStep } from "../domain/approvals/AgentSession.ts"
import type { SessionId } from "../domain/Ids.ts"
import type { EffectCalls, CallError, Operation } from "./Call.ts"
import { isUnavailable, requestedDelay } from "./isTransient.ts"
import type { SessionFollower, StreamError, StreamOptions } from "./stream.ts"

/** A step that is decided. */
export interface GovernResult extends GovernedStep {
  readonly decision: "allow" | "reject"
  /** The approval as it was closed while this waited, with who decided and their comment; null where nothing was waited for. */
  readonly approval: ApprovalSnapshot | null
}

/** How long a decision is waited for. */
export interface GovernOptions extends Pick<StreamOptions, "reconnect"> {
  /** After this it fails with a `TimeoutError`; the approval stays as it is. Default: as long as it takes, which the rule bounds. */
  readonly timeout?: Duration.Input
}

/** Why a decision is not known: the step's own problems, those of the stream, or time. */
export type GovernError = CallError<Operation<"sessions", "step">> | StreamError | Cause.TimeoutError

/**
 * Asks for a step and answers when it is decided. While it is pending the decision is waited for on the session's stream, and the step
 * is asked for again: only the service's answer counts, which checks the rules anew. Asking for a step that was asked for before goes
 * on where that was, so that a question the service was too busy or too far away for is asked again: three times at first, and once a
 * decision was waited for until it is answered.
 */
export type Govern = (
  id: SessionId,
  step: StepRequest,
  options?: GovernOptions
) => Effect.Effect<GovernResult, GovernError>

/** Attempts after the first, of the first question: an address where no service is should not be waited at. */
const FIRST_RETRIES = 3

/** Between attempts of a question: twice as long after each, by chance somewhat longer or shorter, and as long as the service asks for. */
const again = Schedule.exponential("500 millis").pipe(
  Schedule.setInputType<unknown>(),
  Schedule.jittered,
  Schedule.modifyDelay(({ duration, input }) =>
    Effect.succeed(Duration.max(Duration.min(duration, LONGEST_WAIT), requestedDelay(input)))
  )
)

/** The longest wait that the service did not ask for. */
const LONGEST_WAIT = Duration.seconds(30)

/** `govern` over calls and streams. */
export const makeGovern =
  (step: EffectCalls["sessions"]["step"], follower: SessionFollower): Govern =>
  (id, payload, options = {}) => {
    const once = step({ params: { id }, payload })
    const ask = Effect.retry(once, { schedule: again, while: isUnavailable })
    const decided = Effect.gen(function* () {
      // Where the stream goes on from is taken before asking: what is pending then is decided by an event after it.
      let after = follower.lastSeen(id)
      let answer = yield* Effect.retry(once, { schedule: again, while: isUnavailable, times: FIRST_RETRIES })
      let approval: ApprovalSnapshot | undefined
      while (!isDecided(answer)) {
        const pending = answer
        approval = yield* closing(follower, id, pending, { ...options, after }).pipe(
          // So much happened that the next event is gone. Asking again tells; if not, the stream begins at what is kept.
          Effect.catchTag("CURSOR_EXPIRED", () => Effect.undefined)
        )
        after = approval === undefined ? undefined : follower.lastSeen(id)
        answer = yield* Effect.catchTag(ask, "SESSION_CLOSED", (problem) =>
          // Closing a session rejects what waits in it, and a closed one no longer answers for its steps.
          approval?.outcome === "reject"
            ? Effect.succeed<GovernedStep>({ ...pending, decision: "reject", reason: problem.title })
            : Effect.fail(problem)
        )
      }
      return { ...answer, approval: approval ?? null }
    })
    return options.timeout === undefined ? decided : Effect.timeout(decided, options.timeout)
  }

const isDecided = (
  answer: GovernedStep
): answer is GovernedStep & { readonly decision: GovernResult["decision"] } => answer.decision !== "pending"

/** Waits for the event that closes the step's approval; undefined: the session ended without it. */
const closing = (
  follower: SessionFollower,
  id: SessionId,
  { approval_id }: GovernedStep,
  { after, reconnect }: { readonly after: number | undefined; readonly reconnect?: Duration.Input }
): Effect.Effect<ApprovalSnapshot | undefined, StreamError> =>
  follower
    .stream(id, {
      ...(after === undefined ? {} : { after }),
      ...(reconnect === undefined ? {} : { reconnect })
    })
    .pipe(
      Stream.map((event) => (event.type === "approval:decided" ? event.approval : undefined)),
      Stream.filter((approval) => approval?.approval_id === approval_id),
      Stream.runHead,
      Effect.map(Option.getOrUndefined)
    )
