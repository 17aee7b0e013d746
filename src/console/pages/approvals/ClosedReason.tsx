import type { ApprovalSnapshot } from "../../../api/SessionStream.ts"
import { UntrustedText } from "../../ui/UntrustedText.tsx"

/** How an approval closed, and who decided. */
export const ClosedReason = ({
  approval: { decided_by, decision_source, status }
}: {
  readonly approval: Pick<ApprovalSnapshot, "decided_by" | "decision_source" | "status">
}) => {
  switch (decision_source) {
    case "human":
      return (
        <>
          {status === "approved" ? "Approved" : "Rejected"} by{" "}
          <UntrustedText text={decided_by?.name ?? "a person"} />
        </>
      )
    case "session_closed":
      return "Rejected: the session was closed before a decision"
    default:
      return "Expired before anyone decided"
  }
}
