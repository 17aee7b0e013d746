import type { ApprovalSnapshot } from "../../../api/SessionStream.ts"
import { UntrustedText } from "../../ui/UntrustedText.tsx"
import { verdictOf } from "./verdictOf.ts"

/** How an approval closed, and who decided. */
export const ClosedReason = ({
  approval
}: {
  readonly approval: Pick<ApprovalSnapshot, "changes_requested" | "decided_by" | "decision_source" | "status">
}) => {
  switch (approval.decision_source) {
    case "human":
      return (
        <>
          {verdictOf(approval)} by <UntrustedText text={approval.decided_by?.name ?? "a person"} />
        </>
      )
    case "session_closed":
      return "Rejected: the session was closed before a decision"
    default:
      return "Expired before anyone decided"
  }
}
