import { Approval } from "../domain/approvals/Approval.ts"
import { problem } from "./Problem.ts"

/** Somebody decided already; `approval` shows how it stands. */
export class ApprovalAlreadyDecided extends problem<ApprovalAlreadyDecided>()(
  "APPROVAL_ALREADY_DECIDED",
  409,
  "The approval is decided already",
  { approval: Approval }
) {}

/** The approval closed without a person; `approval` shows how it stands. */
export class ApprovalExpired extends problem<ApprovalExpired>()(
  "APPROVAL_EXPIRED",
  409,
  "The approval has expired",
  { approval: Approval }
) {}
