import { Approval } from "../domain/approvals/Approval.ts"
import { problem } from "./Problem.ts"

const fields = { approval: Approval.annotateKey({ description: "The approval as it is now." }) }

export class ApprovalAlreadyDecided extends problem<ApprovalAlreadyDecided>()(
  "APPROVAL_ALREADY_DECIDED",
  409,
  "Approval already decided",
  "The approval was already decided. `approval` shows by whom and how.",
  fields
) {}

export class ApprovalExpired extends problem<ApprovalExpired>()(
  "APPROVAL_EXPIRED",
  409,
  "Approval expired",
  "The approval closed before anyone decided. `approval` shows its outcome.",
  fields
) {}
