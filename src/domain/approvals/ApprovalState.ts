import { DateTime, Duration, Result } from "effect"
import type { ApprovalOutcome, ApprovalStage, ApprovalStatus, Decision, DecisionSource } from "./Approval.ts"
import type { ApprovalEventType } from "./ApprovalEvent.ts"
import type { Actor } from "../identity/Principal.ts"
import type { Timestamp } from "../Time.ts"

/** What a rule grants an approval, in whole seconds. */
export interface ApprovalTerms {
  /** The reviewers' window. */
  readonly review_seconds: number
  /** How long before the end of a window `approval.expiring` is sent; null: a quarter of that window; 0: it is not sent. */
  readonly expiring_seconds: number | null
  /** The admins' window after the reviewers'; null: there is none. */
  readonly escalation_seconds: number | null
  readonly timeout_action: ApprovalOutcome
  /** Whether the key that asked for the step may decide it. */
  readonly self_approval: boolean
}

/** The part of an approval that moves, and the terms it moves by. */
export interface ApprovalState {
  readonly status: ApprovalStatus
  readonly stage: ApprovalStage
  readonly requested_at: Timestamp
  readonly requested_by: Actor["id"]
  readonly review_deadline_at: Timestamp
  readonly escalation_deadline_at: Timestamp | null
  readonly expires_at: Timestamp
  readonly expiring_seconds: number | null
  /** Whether `approval.expiring` was sent for the window that is open. */
  readonly expiring_notified: boolean
  readonly escalated_at: Timestamp | null
  readonly timeout_action: ApprovalOutcome
  readonly self_approval: boolean
  readonly outcome: ApprovalOutcome | null
  readonly decision_source: DecisionSource | null
  readonly decided_at: Timestamp | null
  readonly decided_by: Actor | null
  readonly comment: string | null
}

/** What may happen to an approval. */
export type ApprovalInput =
  | {
      readonly _tag: "Decide"
      readonly decision: Decision
      readonly actor: Actor
      /** Whether the actor holds `approvals.admin`. */
      readonly admin: boolean
      readonly comment: string | null
    }
  | { readonly _tag: "Time" }
  | { readonly _tag: "CloseSession" }

/** Why a decision is not taken. `Expired` and `AlreadyDecided` come too late; the others come from the wrong key. */
export type ApprovalRefusal = "AlreadyDecided" | "Expired" | "AdminRequired" | "SelfApproval"

/** One move of an approval: the event it is told by, and the state it leads to. */
export interface ApprovalTransition {
  readonly event: ApprovalEventType
  readonly state: ApprovalState
}

/** Where an input leads: the moves to record and send, in order, and the state after them. No moves: nothing changed. */
export interface TransitionResult {
  readonly transitions: ReadonlyArray<ApprovalTransition>
  readonly state: ApprovalState
  /** Set where the input was a decision that is not taken, though time itself may have moved the approval. */
  readonly refusal: ApprovalRefusal | null
}

/** A new approval, pending in the reviewers' window. */
export const requestApproval = (
  terms: ApprovalTerms,
  requested_by: Actor["id"],
  now: Timestamp
): ApprovalState => {
  const review_deadline_at = DateTime.add(now, { seconds: terms.review_seconds })
  return {
    status: "pending",
    stage: "reviewer",
    requested_at: now,
    requested_by,
    review_deadline_at,
    escalation_deadline_at:
      terms.escalation_seconds === null
        ? null
        : DateTime.add(review_deadline_at, { seconds: terms.escalation_seconds }),
    expires_at: review_deadline_at,
    expiring_seconds: terms.expiring_seconds,
    expiring_notified: false,
    escalated_at: null,
    timeout_action: terms.timeout_action,
    self_approval: terms.self_approval,
    outcome: null,
    decision_source: null,
    decided_at: null,
    decided_by: null,
    comment: null
  }
}

/**
 * The life of an approval.
 *
 * ```
 *                    ┌─ expiring (once a window) ─┐
 *                    v                            │
 *  request ──> pending/reviewer ──────────────────┘
 *                │   │   │
 *                │   │   └─ window over, admins' window granted ─> pending/admin ─┐ expiring (once)
 *                │   │                        escalated               │  │   ^    │
 *                │   └─ window over, none granted ─────┐              │  │   └────┘
 *                │                                     v              │  │
 *                │ approve or reject                expired <─────────┼──┘ window over
 *                v                                     ^              │
 *        approved · rejected <─── by an admin ─────────┼──────────────┘
 *                                                      │
 *                       the session closes ────────────┘ (outcome reject)
 * ```
 *
 * Time comes first: whatever the input, the windows that have passed are closed before it, so a scheduler that is late
 * never lets an expired approval be approved. Windows have fixed ends; one that passed unseen as a whole (an outage
 * longer than it) is skipped without its events. A closed approval never moves again.
 */
export const transition = (state: ApprovalState, input: ApprovalInput, now: Timestamp): TransitionResult => {
  const timed = passTime(state, now)
  const current = timed?.state ?? state
  switch (input._tag) {
    case "Time":
      return taken(state, [timed], null)
    case "CloseSession":
      return current.status === "pending"
        ? taken(
            state,
            [told(timed), { event: "approval.expired", state: closedBySession(current, now) }],
            null
          )
        : taken(state, [timed], null)
    case "Decide": {
      const decided = decide(current, input, now)
      if (Result.isFailure(decided)) return taken(state, [timed], decided.failure)
      return decided.success === null
        ? taken(state, [timed], null)
        : taken(state, [told(timed), decided.success], null)
    }
  }
}

const taken = (
  from: ApprovalState,
  moves: ReadonlyArray<ApprovalTransition | undefined>,
  refusal: ApprovalRefusal | null
): TransitionResult => {
  const made = moves.filter((move) => move !== undefined)
  return { transitions: made, state: made.at(-1)?.state ?? from, refusal }
}

/** A warning that a window ends is not worth sending in the moment the approval closes. */
const told = (move: ApprovalTransition | undefined) =>
  move?.event === "approval.expiring" ? undefined : move

/** When the approval next moves by itself; null once it is closed. */
export const nextTransitionAt = (state: ApprovalState): Timestamp | null => {
  if (state.status !== "pending") return null
  return state.expiring_notified ? state.expires_at : expiringAt(state)
}

const expiringAt = (state: ApprovalState): Timestamp => {
  const opened = state.stage === "reviewer" ? state.requested_at : state.review_deadline_at
  const quarter = Duration.times(DateTime.distance(opened, state.expires_at), 0.25)
  return DateTime.subtractDuration(
    state.expires_at,
    state.expiring_seconds === null ? quarter : Duration.seconds(state.expiring_seconds)
  )
}

const passTime = (state: ApprovalState, now: Timestamp): ApprovalTransition | undefined => {
  if (state.status !== "pending") return undefined
  if (DateTime.isGreaterThanOrEqualTo(now, state.expires_at)) {
    const admins = state.stage === "reviewer" ? state.escalation_deadline_at : null
    if (admins !== null && DateTime.isLessThan(now, admins)) {
      return {
        event: "approval.escalated",
        state: { ...state, stage: "admin", escalated_at: now, expires_at: admins, expiring_notified: false }
      }
    }
    const last = admins === null ? state : { ...state, expires_at: admins }
    return { event: "approval.expired", state: closed(last, now, "expired", state.timeout_action, "timeout") }
  }
  if (!state.expiring_notified && DateTime.isGreaterThanOrEqualTo(now, expiringAt(state))) {
    return { event: "approval.expiring", state: { ...state, expiring_notified: true } }
  }
  return undefined
}

/** The move a decision makes; null where it was made before, by the same actor. */
const decide = (
  state: ApprovalState,
  input: ApprovalInput & { readonly _tag: "Decide" },
  now: Timestamp
): Result.Result<ApprovalTransition | null, ApprovalRefusal> => {
  const approve = input.decision === "approve"
  const verdict = approve ? "approved" : "rejected"
  if (state.status === "expired") return Result.fail("Expired")
  if (state.status !== "pending") {
    return state.status === verdict && state.decided_by?.id === input.actor.id
      ? Result.succeed(null)
      : Result.fail("AlreadyDecided")
  }
  if (!state.self_approval && state.requested_by === input.actor.id) return Result.fail("SelfApproval")
  if (state.stage === "admin" && !input.admin) return Result.fail("AdminRequired")
  return Result.succeed({
    event: approve ? "approval.approved" : "approval.rejected",
    state: {
      ...closed(state, now, verdict, approve ? "allow" : "reject", "human"),
      decided_by: input.actor,
      comment: input.comment
    }
  })
}

const closedBySession = (state: ApprovalState, now: Timestamp): ApprovalState =>
  closed(state, now, "expired", "reject", "session_closed")

const closed = (
  state: ApprovalState,
  now: Timestamp,
  status: Exclude<ApprovalStatus, "pending">,
  outcome: ApprovalOutcome,
  decision_source: DecisionSource
): ApprovalState => ({ ...state, status, outcome, decision_source, decided_at: now })
