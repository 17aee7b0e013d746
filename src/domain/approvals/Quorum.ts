import { Schema } from "effect"
import { ApprovalStage } from "./ApprovalStage.ts"
import { Group } from "../identity/Group.ts"
import { Actor } from "../identity/Principal.ts"
import { timestamp } from "../Time.ts"

/** The most approvals that a quorum can ask for, and the most parts that it can have. */
export const MAX_APPROVALS = 10
export const MAX_QUORUM_PARTS = 5

export const QuorumPart = Schema.Struct({
  count: Schema.Int.check(
    Schema.isBetween(
      { minimum: 1, maximum: MAX_APPROVALS },
      { expected: `a whole number from 1 to ${MAX_APPROVALS}` }
    )
  ).annotateKey({ description: "How many people must approve, 1 to 10." }),
  group: Schema.NullOr(Group).annotateKey({
    description: "The group whose members may approve. Null, the default: anyone who may decide."
  })
}).annotate({ identifier: "QuorumPart", description: "How many people, of which group, must approve." })
export type QuorumPart = typeof QuorumPart.Type

/** The approvals that an approval needs: the sum of its parts. */
export type Quorum = ReadonlyArray<QuorumPart>

/** One approval by anyone who may decide. */
export const DEFAULT_QUORUM: Quorum = [{ count: 1, group: null }]

export const isDefaultQuorum = ([first, ...rest]: Quorum): boolean =>
  rest.length === 0 && first?.count === 1 && first.group === null

export const Vote = Schema.Struct({
  voted_by: Actor.annotateKey({ description: "The API key that approved." }),
  voted_at: timestamp("When it approved."),
  groups: Schema.Array(Schema.String).annotateKey({ description: "The key's groups." }),
  stage: ApprovalStage.annotateKey({
    description: "Whose window was open. In stage `admin` an approval counts for any group."
  }),
  comment: Schema.NullOr(Schema.String).annotateKey({
    description: "The comment given with it. Null if there is none."
  })
}).annotate({ identifier: "Vote", description: "One person's approval, which counts towards the quorum." })
export type Vote = typeof Vote.Type

/** The members of a vote that decide for which parts it counts. */
type Membership = Pick<Vote, "groups" | "stage">

/** How many approvals a quorum needs. */
export const approvalsRequired = (quorum: Quorum): number => quorum.reduce((sum, { count }) => sum + count, 0)

/** The smallest quorum whose approvals are enough for both. */
export const uniteQuorums = (left: Quorum, right: Quorum): Quorum => {
  const counts = new Map<string | null, QuorumPart>()
  for (const part of [...left, ...right]) {
    if (part.count > (counts.get(part.group)?.count ?? 0)) counts.set(part.group, part)
  }
  counts.delete(null)
  const named = [...counts.values()]
  const others = Math.max(approvalsRequired(left), approvalsRequired(right)) - approvalsRequired(named)
  return others > 0 ? [...named, { count: others, group: null }] : named
}

/**
 * How many of the required approvals these votes give, if each counts for one part, chosen so that most count. (A maximum matching of
 * votes and required approvals. A vote that adds nothing now adds nothing later either, so that the caller can refuse it.)
 */
export const countApprovals = (quorum: Quorum, votes: ReadonlyArray<Membership>): number => {
  const places = quorum.flatMap(({ count, group }) => Array.from({ length: count }, () => group))
  const taken = new Map<number, Membership>()
  const assign = (vote: Membership, tried: Set<number>): boolean =>
    places.some((group, place) => {
      if (tried.has(place) || !countsFor(vote, group)) return false
      tried.add(place)
      const holder = taken.get(place)
      if (holder !== undefined && !assign(holder, tried)) return false
      taken.set(place, vote)
      return true
    })
  return votes.filter((vote) => assign(vote, new Set())).length
}

/** After the escalation admins stand in for the members of every group. */
const countsFor = ({ groups, stage }: Membership, group: string | null): boolean =>
  group === null || stage === "admin" || groups.includes(group)

/** Whether a key with these groups may vote: in the reviewers' window, only members of a group that the quorum names. */
export const mayVote = (quorum: Quorum, membership: Membership): boolean =>
  quorum.some(({ group }) => countsFor(membership, group))

/** The groups whose members' approvals count next; null if anyone's do who may decide. */
export const awaitedGroups = (
  quorum: Quorum,
  votes: ReadonlyArray<Membership>,
  stage: ApprovalStage
): ReadonlyArray<string> | null => {
  const awaited = quorum.flatMap(({ group }) => {
    const vote: Membership = { groups: group === null ? [] : [group], stage }
    return countApprovals(quorum, [...votes, vote]) > votes.length ? [group] : []
  })
  const groups = awaited.filter((group) => group !== null)
  return stage === "admin" || groups.length < awaited.length ? null : groups
}

/** The quorum in words: `2 people`, `1 of finance and 1 of legal`. */
export const describeQuorum = (quorum: Quorum): string =>
  quorum
    .map(({ count, group }) =>
      group === null ? `${count} ${count === 1 ? "person" : "people"}` : `${count} of ${group}`
    )
    .join(" and ")

/** The progress in words: `1 of 2, waiting for finance`. Empty for a quorum of one approval by anyone. */
export const describeProgress = ({
  quorum = DEFAULT_QUORUM,
  stage,
  status,
  votes = []
}: {
  readonly quorum?: Quorum
  readonly stage: ApprovalStage
  readonly status: string
  readonly votes?: ReadonlyArray<Membership>
}): string => {
  if (isDefaultQuorum(quorum)) return ""
  const given = `${votes.length} of ${approvalsRequired(quorum)}`
  if (status !== "pending") return given
  const groups = awaitedGroups(quorum, votes, stage)
  if (groups !== null) return `${given}, waiting for ${groups.join(" or ")}`
  return stage === "admin" ? `${given}, waiting for admins` : given
}
