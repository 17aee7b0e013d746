import { documentedEnum } from "../documentedEnum.ts"

export const ApprovalStage = documentedEnum({
  reviewer: "Keys with `approvals.decide` can decide.",
  admin: "Escalated: only keys with `approvals.admin` can decide."
})
export type ApprovalStage = typeof ApprovalStage.Type
