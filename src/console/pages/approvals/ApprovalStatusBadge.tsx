import type { Approval } from "../../../domain/approvals/Approval.ts"
import type { ApprovalSnapshot } from "../../../api/SessionStream.ts"
import { Badge } from "../../ui/Badge.tsx"

/** The status of an approval as a badge. */
export const ApprovalStatusBadge = ({ approval }: { readonly approval: Approval | ApprovalSnapshot }) => {
  switch (approval.status) {
    case "pending":
      return <Badge tone="wait">Pending</Badge>
    case "approved":
      return <Badge tone="good">Approved</Badge>
    case "rejected":
      return <Badge tone="bad">{approval.changes_requested ? "Changes requested" : "Rejected"}</Badge>
    case "expired":
      return <Badge tone="quiet">Expired, {approval.outcome === "allow" ? "allowed" : "rejected"}</Badge>
  }
}
