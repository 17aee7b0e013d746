import { DateTime, Result, Schema } from "effect"
import { documentedEnum } from "../documentedEnum.ts"
import { ClaimId, SessionId, StepId, TaskId } from "../Ids.ts"
import { Actor } from "../identity/Principal.ts"
import { JsonValue } from "../json/JsonValue.ts"
import { timestamp, type Timestamp } from "../Time.ts"
import { Claim, StepOutcome } from "./AgentSession.ts"
import { isOwnRequest } from "./ApprovalState.ts"

export { DEFAULT_LEASE_SECONDS, LEASE_SECONDS } from "./leaseSeconds.ts"

/** The states in which a step cannot be claimed. */
const heldStates = {
  executing: "The claim's holder executes the step. Its lease has not ended.",
  unknown:
    "The lease ended, or the session was closed, before an outcome was reported. The step may have been executed.",
  completed: "The outcome is recorded."
}

export const HeldState = documentedEnum(heldStates)
export type HeldState = typeof HeldState.Type

export const ExecutionState = documentedEnum({
  ...heldStates,
  retryable: "A person allowed another attempt after an unknown one. The next claim gets it."
})
export type ExecutionState = typeof ExecutionState.Type

export const Resolution = documentedEnum({
  succeeded: "The step was executed and succeeded.",
  failed: "The step was executed and failed.",
  not_executed: "The step was not executed, and must not be. Its outcome is `failed`.",
  retry:
    "The step may be executed once more. The next claim gets the next attempt. Until then requests without `claim` get `allow`: claim the step before you execute it."
})
export type Resolution = typeof Resolution.Type

export const ExecutionResolution = Schema.Struct({
  resolution: Resolution.annotateKey({ description: "What the person found, or allowed." }),
  resolved_at: timestamp("When it was resolved."),
  resolved_by: Actor.annotateKey({ description: "The API key of that person." }),
  comment: Schema.NullOr(Schema.String).annotateKey({
    description: "The person's comment. Null if there is none."
  })
}).annotate({
  identifier: "ExecutionResolution",
  description: "How a person resolved an execution whose outcome was unknown."
})
export type ExecutionResolution = typeof ExecutionResolution.Type

export const Execution = Schema.Struct({
  claim_id: ClaimId.annotateKey({ description: "The claim of the latest attempt." }),
  session_id: SessionId.annotateKey({ description: "The agent session." }),
  step_id: StepId.annotateKey({ description: "The step." }),
  task_id: Schema.NullOr(TaskId).annotateKey({ description: "The step's task. Null if it has none." }),
  tool: Schema.String.annotateKey({ description: "The tool." }),
  action_class: Schema.String.annotateKey({ description: "The class of action." }),
  arguments: Schema.optionalKey(JsonValue).annotateKey({
    description: "The tool's arguments. Absent if the agent sent none."
  }),
  state: ExecutionState.annotateKey({ description: "The state of the execution." }),
  attempt: Claim.fields.attempt,
  idempotency_key: Claim.fields.idempotency_key,
  claimed_at: Claim.fields.claimed_at,
  claimed_by: Actor.annotateKey({ description: "The API key that claimed the step." }),
  expires_at: timestamp("When the lease ended."),
  unknown_at: timestamp("When the outcome became unknown."),
  outcome: Schema.NullOr(StepOutcome).annotateKey({
    description: "The outcome that was reported late, or found by a person. Null if there is none."
  }),
  resolution: Schema.NullOr(ExecutionResolution).annotateKey({
    description: "How a person resolved the execution. Null if nobody did."
  })
}).annotate({
  identifier: "Execution",
  description: "The execution of a claimed step whose outcome is or was unknown."
})
export type Execution = typeof Execution.Type

/** The claim of a step, and its outcome. */
export interface ExecutionRecord {
  readonly state: ExecutionState
  readonly claim_id: ClaimId
  readonly attempt: number
  readonly claimed_at: Timestamp
  readonly claimed_by: Actor
  readonly expires_at: Timestamp
  /** Identifies the request that claimed the step, so that its repetition gets the same claim; null: it cannot be repeated. */
  readonly request: string | null
  /** When the outcome of this attempt became unknown; null: it has not. */
  readonly unknown_at: Timestamp | null
  readonly resolution: ExecutionResolution | null
}

/** What happened to an execution. */
export type ExecutionEvent = "claimed" | "renewed" | "unknown" | "completed" | "retry_allowed"

export type ExecutionInput =
  | {
      readonly _tag: "Claim"
      readonly claim_id: ClaimId
      readonly claimed_by: Actor
      readonly lease_seconds: number
      readonly request: string | null
      /** Whether the caller asks for another attempt after an unknown one, and the rule of the step allows it. */
      readonly after_unknown: boolean
    }
  | { readonly _tag: "Renew"; readonly claim_id: ClaimId; readonly lease_seconds: number }
  /** An outcome is reported, with the claim that it names. */
  | { readonly _tag: "Complete"; readonly claim_id: ClaimId | null }
  /** A person resolves an unknown execution. */
  | {
      readonly _tag: "Resolve"
      readonly resolution: Resolution
      readonly actor: Actor
      readonly makers: ReadonlyArray<Actor["id"]>
      readonly comment: string | null
    }
  | { readonly _tag: "Time" }
  | { readonly _tag: "CloseSession" }

export type ExecutionRefusal = "AlreadyClaimed" | "ClaimMismatch" | "NotUnknown" | "SelfApproval"

/** One transition: the event that reports it, and the execution after it. */
export interface ExecutionTransition {
  readonly event: ExecutionEvent
  readonly execution: ExecutionRecord
}

/** The transitions to record, in order. Without transitions nothing changed. */
export interface ExecutionResult {
  readonly transitions: ReadonlyArray<ExecutionTransition>
  /** The execution after them; null: the step is not claimed. */
  readonly execution: ExecutionRecord | null
  /** Set if the input is refused. Time can have changed the execution. */
  readonly refusal: ExecutionRefusal | null
}

/**
 * Applies an input to the execution of a step; null: it is not claimed.
 *
 * ```
 *            claim               outcome with this claim
 *   (null) ─────────> executing ─────────────────────────────────────────> completed
 *                      │  ^  ^                                              ^     ^
 *          lease ends, │  │  │ claim after_unknown,                         │     │
 *       session closes │  │  │ if its own rule has retry_unknown            │     │
 *                      v  │  │                    late outcome, or a person │     │
 *                     unknown ──────────────────── finds what happened ─────┘     │
 *                         │  │                                                    │
 *                  claim  │  │ a person allows a retry                            │
 *               (attempt  │  v                                                    │
 *                   + 1)  └─ retryable ── late outcome, or a person finds ────────┘
 *                                         what happened
 * ```
 *
 * Time is applied before the input: a lease that has ended makes the outcome unknown first, however late the scheduler is. Nothing leaves
 * `completed`, and nothing enters `executing` without a claim: an unknown execution never starts again by itself.
 */
export const transition = (
  from: ExecutionRecord | null,
  input: ExecutionInput,
  now: Timestamp
): ExecutionResult => {
  const timed = from === null ? null : applyTime(from, now)
  const current = timed?.execution ?? from
  const next = applyInput(current, input, now)
  const transitions = [timed, Result.isSuccess(next) ? next.success : null].filter((one) => one !== null)
  return {
    transitions,
    execution: transitions.at(-1)?.execution ?? from,
    refusal: Result.isFailure(next) ? next.failure : null
  }
}

/** The transition of an input after time has been applied; null: nothing changes. */
const applyInput = (
  current: ExecutionRecord | null,
  input: ExecutionInput,
  now: Timestamp
): Result.Result<ExecutionTransition | null, ExecutionRefusal> => {
  switch (input._tag) {
    case "Time":
      return Result.succeed(null)
    case "CloseSession":
      return Result.succeed(current?.state === "executing" ? toUnknown(current, now) : null)
    case "Claim":
      return claim(current, input, now)
    case "Renew":
      return current?.state === "executing" && current.claim_id === input.claim_id
        ? Result.succeed({
            event: "renewed",
            execution: { ...current, expires_at: leaseEnd(now, input.lease_seconds) }
          })
        : Result.fail("ClaimMismatch")
    case "Complete":
      if ((current?.claim_id ?? null) !== input.claim_id || current?.state === "completed")
        return Result.fail("ClaimMismatch")
      return Result.succeed(
        current === null ? null : { event: "completed", execution: { ...current, state: "completed" } }
      )
    case "Resolve":
      return resolve(current, input, now)
  }
}

const applyTime = (execution: ExecutionRecord, now: Timestamp): ExecutionTransition | null =>
  execution.state === "executing" && DateTime.isGreaterThanOrEqualTo(now, execution.expires_at)
    ? toUnknown(execution, now)
    : null

const toUnknown = (execution: ExecutionRecord, now: Timestamp): ExecutionTransition => ({
  event: "unknown",
  execution: { ...execution, state: "unknown", unknown_at: now }
})

const leaseEnd = (now: Timestamp, lease_seconds: number): Timestamp =>
  DateTime.add(now, { seconds: lease_seconds })

const claim = (
  current: ExecutionRecord | null,
  {
    after_unknown,
    claim_id,
    claimed_by,
    lease_seconds,
    request
  }: ExecutionInput & { readonly _tag: "Claim" },
  now: Timestamp
): Result.Result<ExecutionTransition | null, ExecutionRefusal> => {
  const isFree =
    current === null || current.state === "retryable" || (current.state === "unknown" && after_unknown)
  if (isFree) {
    return Result.succeed({
      event: "claimed",
      execution: {
        state: "executing",
        claim_id,
        attempt: (current?.attempt ?? 0) + 1,
        claimed_at: now,
        claimed_by,
        expires_at: leaseEnd(now, lease_seconds),
        request,
        unknown_at: null,
        resolution: null
      }
    })
  }
  // The response may have been lost: the same request of the same key gets its claim again.
  const isRepeated = current.state === "executing" && request !== null && current.request === request
  return isRepeated ? Result.succeed(null) : Result.fail("AlreadyClaimed")
}

const resolve = (
  current: ExecutionRecord | null,
  { actor, comment, makers, resolution }: ExecutionInput & { readonly _tag: "Resolve" },
  now: Timestamp
): Result.Result<ExecutionTransition | null, ExecutionRefusal> => {
  if (current === null) return Result.fail("NotUnknown")
  const before = current.resolution
  if (before?.resolution === resolution && before.resolved_by.id === actor.id) return Result.succeed(null)
  if (current.state !== "unknown" && current.state !== "retryable") return Result.fail("NotUnknown")
  // An owner of the agent's key must not vouch for it.
  if (isOwnRequest(current.claimed_by.id, { actor, makers })) return Result.fail("SelfApproval")
  const isRetry = resolution === "retry"
  return Result.succeed({
    event: isRetry ? "retry_allowed" : "completed",
    execution: {
      ...current,
      state: isRetry ? "retryable" : "completed",
      resolution: { resolution, resolved_at: now, resolved_by: actor, comment }
    }
  })
}

/** Whether the outcome of a completed execution came after it had become unknown, from the agent itself. */
export const isLate = ({ resolution, unknown_at }: ExecutionRecord): boolean =>
  unknown_at !== null && (resolution === null || resolution.resolution === "retry")

/**
 * The idempotency key of a step, from the digest of its content: a UUID of version 8 (RFC 9562, section 5.8), the form that most services
 * accept.
 */
export const idempotencyKeyOf = (arguments_digest: string): string => {
  const variant = "89ab".charAt(Number.parseInt(arguments_digest.charAt(16), 16) % 4)
  const hex = `${arguments_digest.slice(0, 12)}8${arguments_digest.slice(13, 16)}${variant}${arguments_digest.slice(17, 32)}`
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join("-")
}

/** A claim as its owner gets it, without its ticket. */
export const toClaim = (
  { attempt, claim_id, claimed_at, expires_at }: ExecutionRecord,
  { arguments_digest, step_id }: { readonly arguments_digest: string; readonly step_id: StepId }
): Omit<Claim, "ticket"> => ({
  id: claim_id,
  step_id,
  attempt,
  claimed_at,
  expires_at,
  idempotency_key: idempotencyKeyOf(arguments_digest)
})
