import type { ConsoleSession, InboxApproval } from "../../api/Console.ts"
import { countApprovals, mayVote } from "../../domain/approvals/Quorum.ts"

/**
 * Why the signed-in key cannot approve. `scope`, `admin`, `group`, `own`: nor can it reject. `own`: it requested the step. `approved`: it has approved already. `enough`: enough
 * members of its groups have.
 */
export type Obstacle = "scope" | "admin" | "group" | "own" | "approved" | "enough"

/** Whether the key can neither approve nor reject. */
export const isBarred = (obstacle: Obstacle | undefined): boolean =>
  obstacle !== undefined && obstacle !== "approved" && obstacle !== "enough"

/** Finds what keeps the signed-in key from approving, as far as the page can know; undefined: nothing. */
export const findObstacle = (
  { line, quorum, stage, votes }: Pick<InboxApproval, "line" | "quorum" | "stage" | "votes">,
  { groups, key, scopes }: Pick<ConsoleSession, "groups" | "key" | "scopes">
): Obstacle | undefined => {
  if (!scopes.includes("approvals.decide")) return "scope"
  if (stage === "admin" && !scopes.includes("approvals.admin")) return "admin"
  if (line !== undefined && !line.self_approval && line.requested_by.id === key.id) return "own"
  const vote = { groups, stage }
  if (!mayVote(quorum, vote)) return "group"
  if (votes.some(({ voted_by }) => voted_by.id === key.id)) return "approved"
  return countApprovals(quorum, [...votes, vote]) > votes.length ? undefined : "enough"
}
