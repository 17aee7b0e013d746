import type { ApprovalRule } from "../domain/approvals/ApprovalRule.ts"
import { defaultRule } from "../domain/approvals/defaultRule.ts"
import type { QuorumPart } from "../domain/approvals/Quorum.ts"
import type { NewApprovalRule, NewQuorumPart } from "./ApprovalRules.ts"

/** A rule with its defaults, without its id. */
export const completeRule = ({ id: _, quorum, ...rule }: NewApprovalRule): Omit<ApprovalRule, "id"> => ({
  ...defaultRule,
  ...rule,
  ...(quorum === undefined ? {} : { quorum: quorum.map(completePart) })
})

const completePart = ({ count = 1, group = null }: NewQuorumPart): QuorumPart => ({ count, group })
