import { DateTime, Duration, Result } from "effect"
import {
  type ApprovalOutcome,
  type ApprovalStatus,
  type CommentRequirement,
  type Decision,
  type DecisionSource,
  needsComment
} from "./Approval.ts"
import type { ApprovalEventType } from "./ApprovalEvent.ts"
import type { ApprovalStage } from "./ApprovalStage.ts"
import { approvalsRequired, countApprovals, mayVote, type Quorum, type Vote } from "./Quorum.ts"
import type { StoredProposal } from "./StoredProposal.ts"
import type { Actor } from "../identity/Principal.ts"
import { hasVisibleText } from "../VisibleText.ts"
import type { Timestamp } from "../Time.ts"

/** The terms that a rule gives an approval. Durations are whole seconds. */
export interface ApprovalTerms {
  /** Length of the reviewers' window. */
  readonly review_seconds: number
  /** How long before the end of a window `approval.expiring` is sent. Null: a quarter of the window; 0: never. */
  readonly expiring_seconds: number | null
  /** Length of the admins' escalation window, after the reviewers'. Null: no escalation. */
  readonly escalation_seconds: number | null
  readonly timeout_action: ApprovalOutcome
  /** Whether the key that submitted the step may decide it. */
  readonly self_approval: boolean
  /** The approvals that are needed. */
  readonly quorum: Quorum
  readonly require_comment: CommentRequirement
}

/** A vote, with the keys that made the voter's key. */
export interface VoteOfPerson extends Vote {
  readonly makers: ReadonlyArray<Actor["id"]>
}

/** The part of an approval that changes, with the terms that decide how. */
export interface ApprovalState {
  readonly status: ApprovalStatus
  readonly stage: ApprovalStage
  readonly requested_at: Timestamp
  readonly requested_by: Actor["id"]
  readonly review_deadline_at: Timestamp
  readonly escalation_deadline_at: Timestamp | null
  readonly expires_at: Timestamp
  readonly expiring_seconds: number | null
  /** Whether `approval.expiring` was sent for the open window. */
  readonly expiring_notified: boolean
  readonly escalated_at: Timestamp | null
  readonly timeout_action: ApprovalOutcome
  readonly self_approval: boolean
  readonly quorum: Quorum
  readonly require_comment: CommentRequirement
  /** The approvals so far, oldest first. Each counts towards the quorum. */
  readonly votes: ReadonlyArray<VoteOfPerson>
  readonly outcome: ApprovalOutcome | null
  readonly decision_source: DecisionSource | null
  readonly decided_at: Timestamp | null
  readonly decided_by: Actor | null
  readonly comment: string | null
  /** Whether it was rejected by requesting changes. */
  readonly changes_requested: boolean
  /** The arguments that were proposed with a rejection. */
  readonly proposal: StoredProposal | null
}

/** The inputs of the state machine. */
export type ApprovalInput =
  | {
      readonly _tag: "Decide"
      readonly decision: Decision
      readonly actor: Actor
      /** The keys that made the actor's key; see `Principal.makers`. */
      readonly makers: ReadonlyArray<Actor["id"]>
      /** The groups of the actor's key. */
      readonly groups: ReadonlyArray<string>
      /** Whether the actor has `approvals.admin`. */
      readonly admin: boolean
      readonly comment: string | null
      /** The arguments that a rejection proposes; absent if it proposes none. */
      readonly proposal?: Pick<StoredProposal, "arguments" | "digest">
    }
  | { readonly _tag: "Time" }
  | { readonly _tag: "CloseSession" }

/**
 * Why a decision is refused: it came too late (`Expired`, `AlreadyDecided`), without the comment that the rule asks for
 * (`CommentRequired`), or from the wrong key (the others). `GroupRequired`: the key is in no group whose members decide, or enough of its
 * groups' members have approved. `SamePerson`: another key of its owner has approved.
 */
export type ApprovalRefusal =
  | "AlreadyDecided"
  | "Expired"
  | "AdminRequired"
  | "SelfApproval"
  | "GroupRequired"
  | "SamePerson"
  | "CommentRequired"

/** One transition: the event that reports it, and the state after it. */
export interface ApprovalTransition {
  readonly event: ApprovalEventType
  readonly state: ApprovalState
}

/** The transitions to record and publish, in order, and the state after them. Without transitions nothing changed. */
export interface TransitionResult {
  readonly transitions: ReadonlyArray<ApprovalTransition>
  readonly state: ApprovalState
  /** Set if the input was a decision that is refused. Time can have changed the approval. */
  readonly refusal: ApprovalRefusal | null
}

/** Opens an approval, pending in the reviewers' window. */
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
    quorum: terms.quorum,
    require_comment: terms.require_comment,
    votes: [],
    outcome: null,
    decision_source: null,
    decided_at: null,
    decided_by: null,
    comment: null,
    changes_requested: false,
    proposal: null
  }
}

/** How long a counter-proposal can be used. */
const PROPOSAL_SECONDS = 3_600

/**
 * Applies an input to an approval.
 *
 * ```
 *   requestApproval
 *        │
 *        v                  window ends, escalation granted
 *  pending/reviewer ────────────────────────────────────────────> pending/admin
 *     │        │                 (approval.escalated)                 │       │
 *     │        │                                                      │       │
 *     │        └──────── window ends, no escalation ───┐        window ends   │
 *     │                                                v              │       │
 *     │                                             expired <─────────┘       │
 *     │                                                                       │
 *     ├── a reviewer rejects, or requests changes ──> rejected <── an admin ──┤
 *     └── the quorum's last approval ────> approved <──── its last approval ──┘
 *
 *  In either window, once: approval.expiring. An approval before the quorum's last: approval.vote_recorded.
 *  From either window: the session closes ──> expired, outcome `reject`.
 * ```
 *
 * The quorum stays as it is when an approval is escalated, and earlier votes count: as many people must approve as before, and an admin
 * counts for any group. Votes of the keys of one person, which made each other, count once.
 *
 * Time is applied before the input: windows that have ended are closed first, so a late scheduler cannot let an expired approval be
 * approved. Windows have fixed ends. A window that passed completely during an outage is skipped without its events. A closed approval
 * never changes again.
 */
export const transition = (state: ApprovalState, input: ApprovalInput, now: Timestamp): TransitionResult => {
  const timed = applyTime(state, now)
  const current = timed?.state ?? state
  switch (input._tag) {
    case "Time":
      return result(state, [timed], null)
    case "CloseSession":
      return current.status === "pending"
        ? result(
            state,
            [withoutWarning(timed), { event: "approval.expired", state: closeWithSession(current, now) }],
            null
          )
        : result(state, [timed], null)
    case "Decide": {
      const decided = decide(current, input, now)
      if (Result.isFailure(decided)) return result(state, [timed], decided.failure)
      return decided.success === null
        ? result(state, [timed], null)
        : result(
            state,
            [decided.success.state.status === "pending" ? timed : withoutWarning(timed), decided.success],
            null
          )
    }
  }
}

const result = (
  from: ApprovalState,
  candidates: ReadonlyArray<ApprovalTransition | undefined>,
  refusal: ApprovalRefusal | null
): TransitionResult => {
  const transitions = candidates.filter((candidate) => candidate !== undefined)
  return { transitions, state: transitions.at(-1)?.state ?? from, refusal }
}

/** Drops the warning that a window is about to end if the approval closes at the same moment. */
const withoutWarning = (transition: ApprovalTransition | undefined) =>
  transition?.event === "approval.expiring" ? undefined : transition

/** When the next transition by time is due; null once the approval is closed. */
export const nextTransitionAt = (state: ApprovalState): Timestamp | null => {
  if (state.status !== "pending") return null
  return state.expiring_notified ? state.expires_at : expiringAt(state)
}

const expiringAt = (state: ApprovalState): Timestamp => {
  const windowStart = state.stage === "reviewer" ? state.requested_at : state.review_deadline_at
  const quarter = Duration.times(DateTime.distance(windowStart, state.expires_at), 0.25)
  return DateTime.subtractDuration(
    state.expires_at,
    state.expiring_seconds === null ? quarter : Duration.seconds(state.expiring_seconds)
  )
}

const applyTime = (state: ApprovalState, now: Timestamp): ApprovalTransition | undefined => {
  if (state.status !== "pending") return undefined
  if (DateTime.isGreaterThanOrEqualTo(now, state.expires_at)) {
    const adminDeadline = state.stage === "reviewer" ? state.escalation_deadline_at : null
    if (adminDeadline !== null && DateTime.isLessThan(now, adminDeadline)) {
      return {
        event: "approval.escalated",
        state: {
          ...state,
          stage: "admin",
          escalated_at: now,
          expires_at: adminDeadline,
          expiring_notified: false
        }
      }
    }
    const last = adminDeadline === null ? state : { ...state, expires_at: adminDeadline }
    return { event: "approval.expired", state: close(last, now, "expired", state.timeout_action, "timeout") }
  }
  if (!state.expiring_notified && DateTime.isGreaterThanOrEqualTo(now, expiringAt(state))) {
    return { event: "approval.expiring", state: { ...state, expiring_notified: true } }
  }
  return undefined
}

/** Whether the requesting key is the decider's own, or one that made it: its owner could hold both. */
export const isOwnRequest = (
  requested_by: Actor["id"],
  { actor, makers }: { readonly actor: Actor; readonly makers: ReadonlyArray<Actor["id"]> }
): boolean => requested_by === actor.id || makers.includes(requested_by)

/** Whether one person is known to hold both keys: they are the same, or one made the other. */
export const isSamePerson = (
  { makers, voted_by }: Pick<VoteOfPerson, "makers" | "voted_by">,
  other: { readonly actor: Actor; readonly makers: ReadonlyArray<Actor["id"]> }
): boolean =>
  voted_by.id === other.actor.id || makers.includes(other.actor.id) || other.makers.includes(voted_by.id)

/**
 * The transition that a decision makes; null if the same actor made the same decision before. A rejection with another proposal than the
 * recorded one is another decision, and so is one that requests changes.
 */
const decide = (
  state: ApprovalState,
  input: ApprovalInput & { readonly _tag: "Decide" },
  now: Timestamp
): Result.Result<ApprovalTransition | null, ApprovalRefusal> => {
  const approve = input.decision === "approve"
  const changes_requested = input.decision === "request_changes"
  const verdict = approve ? "approved" : "rejected"
  const hasApproved = state.votes.some(({ voted_by }) => voted_by.id === input.actor.id)
  if (state.status === "expired") return Result.fail("Expired")
  if (state.status !== "pending") {
    const isOwn = state.decided_by?.id === input.actor.id || (approve && hasApproved)
    if (input.proposal !== undefined && input.proposal.digest !== state.proposal?.digest)
      return Result.fail("AlreadyDecided")
    const isSame = state.status === verdict && state.changes_requested === changes_requested
    return isSame && isOwn ? Result.succeed(null) : Result.fail("AlreadyDecided")
  }
  if (approve && hasApproved) return Result.succeed(null)
  if (!state.self_approval && isOwnRequest(state.requested_by, input)) return Result.fail("SelfApproval")
  if (state.stage === "admin" && !input.admin) return Result.fail("AdminRequired")
  const { actor, comment, groups, makers } = input
  if (!mayVote(state.quorum, { groups, stage: state.stage })) return Result.fail("GroupRequired")
  // Asked for last: the key could decide with a comment.
  const lacksComment = needsComment(state.require_comment, input.decision) && !hasVisibleText(comment ?? "")
  if (!approve) {
    if (lacksComment) return Result.fail("CommentRequired")
    const rejected = close(state, now, "rejected", "reject", "human")
    return Result.succeed({
      event: "approval.rejected",
      state: { ...rejected, decided_by: actor, comment, changes_requested, proposal: propose(input, now) }
    })
  }
  if (state.votes.some((vote) => isSamePerson(vote, input))) return Result.fail("SamePerson")
  const vote = { voted_by: actor, voted_at: now, groups, stage: state.stage, comment, makers }
  const votes = [...state.votes, vote]
  if (countApprovals(state.quorum, votes) < votes.length) return Result.fail("GroupRequired")
  if (lacksComment) return Result.fail("CommentRequired")
  if (votes.length < approvalsRequired(state.quorum)) {
    return Result.succeed({ event: "approval.vote_recorded", state: { ...state, votes } })
  }
  const approved = close({ ...state, votes }, now, "approved", "allow", "human")
  return Result.succeed({ event: "approval.approved", state: { ...approved, decided_by: actor, comment } })
}

const propose = (
  { groups, makers, proposal }: ApprovalInput & { readonly _tag: "Decide" },
  now: Timestamp
): StoredProposal | null =>
  proposal === undefined
    ? null
    : {
        ...proposal,
        expires_at: DateTime.add(now, { seconds: PROPOSAL_SECONDS }),
        groups,
        makers,
        used_by: null
      }

const closeWithSession = (state: ApprovalState, now: Timestamp): ApprovalState =>
  close(state, now, "expired", "reject", "session_closed")

const close = (
  state: ApprovalState,
  now: Timestamp,
  status: Exclude<ApprovalStatus, "pending">,
  outcome: ApprovalOutcome,
  decision_source: DecisionSource
): ApprovalState => ({ ...state, status, outcome, decision_source, decided_at: now })
