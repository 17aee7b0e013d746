import type { ApprovalRules } from "../../../api/ApprovalRules.ts"
import type { RuleReviewer } from "../../../domain/approvals/RuleReviewer.ts"
import type { RuleId } from "../../../domain/Ids.ts"
import { apiClient } from "../../state/apiClient.ts"
import { toPayload } from "../rules/RuleDraft.ts"

/** Saves the rules with another reviewer in one of them; refused if they were saved elsewhere meanwhile. */
export const saveReviewerOfRule = (
  { revision, rules }: ApprovalRules,
  id: RuleId,
  reviewer: RuleReviewer | null
) =>
  apiClient.approvalRules.replace({
    payload: {
      revision,
      rules: rules.map((rule) =>
        toPayload({ isNew: false, rule: rule.id === id ? { ...rule, reviewer } : rule })
      )
    }
  })
