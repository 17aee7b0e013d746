import type { ConsoleSession } from "../../api/Console.ts"
import type { ApprovalSnapshot } from "../../api/SessionStream.ts"
import { countApprovals, DEFAULT_QUORUM, mayVote } from "../../domain/approvals/Quorum.ts"

/**
 * Why the signed-in key cannot approve. `scope`, `admin`, `group`: nor can it reject. `approved`: it has approved already. `enough`: enough
 * members of its groups have.
 */
export type Obstacle = "scope" | "admin" | "group" | "approved" | "enough"

/** Finds what keeps the signed-in key from approving, as far as the page can know; undefined: nothing. */
export const findObstacle = (
  { quorum = DEFAULT_QUORUM, stage, votes = [] }: Pick<ApprovalSnapshot, "quorum" | "stage" | "votes">,
  { groups, key, scopes }: Pick<ConsoleSession, "groups" | "key" | "scopes">
): Obstacle | undefined => {
  if (!scopes.includes("approvals.decide")) return "scope"
  if (stage === "admin" && !scopes.includes("approvals.admin")) return "admin"
  const vote = { groups, stage }
  if (!mayVote(quorum, vote)) return "group"
  if (votes.some(({ voted_by }) => voted_by.id === key.id)) return "approved"
  return countApprovals(quorum, [...votes, vote]) > votes.length ? undefined : "enough"
}
