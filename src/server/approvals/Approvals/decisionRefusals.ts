/** Why a decision, or a message, is refused. */
import { Effect } from "effect"
import { ApprovalAlreadyDecided, ApprovalExpired } from "../../../api/ApprovalProblems.ts"
import {
  AdminRequired,
  CommentRequired,
  GroupRequired,
  SamePerson,
  SelfApproval
} from "../../../api/Problems.ts"
import type { Approval } from "../../../domain/approvals/Approval.ts"
import type { ApprovalRefusal } from "../../../domain/approvals/ApprovalState.ts"
import { awaitedGroups } from "../../../domain/approvals/Quorum.ts"

/** The problems of refusals. */
export type RefusedDecision =
  | SelfApproval
  | AdminRequired
  | GroupRequired
  | SamePerson
  | CommentRequired
  | ApprovalAlreadyDecided
  | ApprovalExpired

/** The approval was decided before. */
export const alreadyDecided = (approval: Approval): Effect.Effect<never, ApprovalAlreadyDecided> =>
  Effect.fail(
    new ApprovalAlreadyDecided({
      detail: `Already ${approval.status}. This request changed nothing.`,
      approval
    })
  )

/** The approval closed without a decision. */
export const expired = (approval: Approval): Effect.Effect<never, ApprovalExpired> =>
  Effect.fail(new ApprovalExpired({ detail: closedWithoutDecision(approval), approval }))

/** The problem for a refusal. */
export const refused = (
  refusal: ApprovalRefusal,
  approval: Approval
): Effect.Effect<never, RefusedDecision> => {
  switch (refusal) {
    case "AlreadyDecided":
      return alreadyDecided(approval)
    case "Expired":
      return expired(approval)
    case "AdminRequired":
      return Effect.fail(
        new AdminRequired({
          detail: "The approval was escalated to the admins. Decide it with a key that has approvals.admin."
        })
      )
    case "GroupRequired":
      return Effect.fail(new GroupRequired({ detail: groupsThatDecide(approval) }))
    case "SamePerson":
      return Effect.fail(
        new SamePerson({
          detail:
            "A key that created this one, or that it created, has approved already: both count as one person. This request changed nothing."
        })
      )
    case "CommentRequired":
      return Effect.fail(
        new CommentRequired({
          detail: `The rule asks for a comment with ${approval.require_comment === "always" ? "every decision" : "a rejection"}. Send the decision again with a \`comment\`. This request changed nothing.`
        })
      )
    case "SelfApproval":
      return Effect.fail(
        new SelfApproval({
          detail:
            "The key that requested this approval cannot decide it, nor can a key that it created. Use another person's key."
        })
      )
  }
}

/** Whose approvals are needed. */
const groupsThatDecide = ({ quorum, stage, votes }: Approval): string => {
  const groups = awaitedGroups(quorum, votes, stage) ?? []
  return `Approval by ${groups.join(" or ")} is needed. Decide with a key that has such a group. This request changed nothing.`
}

const closedWithoutDecision = ({ decision_source }: Approval): string =>
  decision_source === "session_closed"
    ? "The session was closed before anyone decided; the step was rejected."
    : "The approval expired before anyone decided; the step got the rule's timeout action."
