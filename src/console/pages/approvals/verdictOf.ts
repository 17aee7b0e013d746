import type { ApprovalSnapshot } from "../../../api/SessionStream.ts"

/** The verdict of a person, for `… by Ada`. */
export const verdictOf = ({
  changes_requested,
  status
}: Pick<ApprovalSnapshot, "changes_requested" | "status">): string => {
  if (status === "approved") return "Approved"
  return changes_requested ? "Changes requested" : "Rejected"
}
