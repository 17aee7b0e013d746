import type { Approval } from "../../../domain/approvals/Approval.ts"
import type { ApprovalSnapshot } from "../../../api/SessionStream.ts"
import { Badge } from "../../ui/Badge.tsx"

/** How an approval stands, in a word. */
export const ApprovalStatusBadge = ({ approval }: { readonly approval: Approval | ApprovalSnapshot }) => {
  switch (approval.status) {
    case "pending":
      return <Badge tone="wait">waiting</Badge>
    case "approved":
      return <Badge tone="good">approved</Badge>
    case "rejected":
      return <Badge tone="bad">rejected</Badge>
    case "expired":
      return <Badge tone="quiet">expired, {approval.outcome === "allow" ? "allowed" : "rejected"}</Badge>
  }
}
