import type { StepId } from "../Ids.ts"
import type { Actor } from "../identity/Principal.ts"
import type { Timestamp } from "../Time.ts"
import { type ApprovalTerms, isOwnRequest } from "./ApprovalState.ts"
import { approvalsRequired, mayVote } from "./Quorum.ts"

/** A counter-proposal as it is stored. */
export interface StoredProposal {
  /** JSON text; undefined if it was not read. */
  readonly arguments: string | undefined
  /** See `proposalDigest`. */
  readonly digest: string
  readonly expires_at: Timestamp
  /** The groups of the reviewer's key, and the keys that made it, when the proposal was made. */
  readonly groups: ReadonlyArray<string>
  readonly makers: ReadonlyArray<Actor["id"]>
  readonly used_by: StepId | null
}

/** The reviewer who made a proposal. */
export interface Proposer extends Pick<StoredProposal, "groups" | "makers"> {
  readonly actor: Actor
}

/**
 * Whether a proposal can take the place of the question about a step: only if the proposer could answer that question alone. A step that
 * needs several people, or a group that the proposer is not in, is asked about as always. So is a step whose requester, or whose session's
 * creator, could be the proposer, unless the rule sets `self_approval`.
 */
export const mayAnswer = (
  proposer: Proposer,
  terms: Pick<ApprovalTerms, "quorum" | "self_approval">,
  requesters: ReadonlyArray<Actor["id"]>
): boolean =>
  approvalsRequired(terms.quorum) === 1 &&
  mayVote(terms.quorum, { groups: proposer.groups, stage: "reviewer" }) &&
  (terms.self_approval || !requesters.some((id) => isOwnRequest(id, proposer)))
