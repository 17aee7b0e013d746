import type { RuleEffect } from "../../../domain/approvals/ApprovalRule.ts"
import { Badge, type Tone } from "../../ui/Badge.tsx"

/** The name and the tone of each effect. */
export const effects: Record<RuleEffect, { readonly text: string; readonly tone: Tone }> = {
  allow: { text: "Allow", tone: "good" },
  reject: { text: "Reject", tone: "bad" },
  require_approval: { text: "Require approval", tone: "wait" }
}

/** The effect of a rule. */
export const EffectBadge = ({ effect }: { readonly effect: RuleEffect }) => (
  <Badge tone={effects[effect].tone}>{effects[effect].text}</Badge>
)
