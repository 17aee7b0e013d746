import { Schema } from "effect"
import { documented } from "../documented.ts"
import { ApprovalId, RuleId } from "../Ids.ts"
import type { StepDecision } from "./AgentSession.ts"
import { ApprovalOutcome, DecisionSource } from "./Approval.ts"
import { RuleEffect, type Ruling } from "./ApprovalRule.ts"
import { judgedStep, recordedEffect } from "./RuleTest.ts"

/** Each number of differences is counted up to this one. */
export const MAX_COUNTED_DIFFERENCES = 10_000

const RuledEffect = (whose: string) =>
  Schema.Struct({
    effect: RuleEffect.annotateKey({ description: `The effect of ${whose}.` }),
    rule_id: Schema.NullOr(RuleId).annotateKey({
      description: `The rule of ${whose} that matched. Null if none did.`
    }),
    reason: Schema.String.annotateKey({ description: `The reason that ${whose} gave.` })
  })

export const ShadowDifference = Schema.Struct({
  ...judgedStep,
  live: RuledEffect("the live rules").annotateKey({ description: "The first decision about the step." }),
  shadow: RuledEffect("the shadow rules").annotateKey({
    description: "What the shadow rules would have decided."
  }),
  approval_id: Schema.NullOr(ApprovalId).annotateKey({
    description: "The approval of the step. Null if the live rules decided without asking."
  }),
  outcome: Schema.NullOr(ApprovalOutcome).annotateKey({
    description: "The outcome of the approval. Null without one, and while it is pending."
  }),
  decision_source: Schema.NullOr(DecisionSource).annotateKey({
    description: "What closed the approval. Null without one, and while it is pending."
  })
}).annotate({
  identifier: "ShadowDifference",
  description: "A step for which the shadow rules have another effect than its first decision."
})
export type ShadowDifference = typeof ShadowDifference.Type

export const ShadowChange = Schema.Struct({
  live: RuleEffect.annotateKey({ description: "The effect of the live rules." }),
  shadow: RuleEffect.annotateKey({ description: "The effect of the shadow rules." }),
  steps: Schema.Int.annotateKey({
    description: `How many steps have both. Counted up to ${MAX_COUNTED_DIFFERENCES.toLocaleString("en-US")}, which means that many or more.`
  })
}).annotate({ identifier: "ShadowChange", description: "A number of steps by both effects." })
export type ShadowChange = typeof ShadowChange.Type

export const ShadowChanges = Schema.Array(ShadowChange).check(documented({ maxItems: 6 }))

/** The ruling of a shadow list, with the list's revision. */
export interface ShadowRuling {
  readonly revision: number
  readonly ruling: Ruling
}

/** The columns of a step about its shadow rules: null unless they have another effect than its decision. */
export interface ShadowColumns {
  readonly shadow_effect: RuleEffect | null
  readonly shadow_rule_id: RuleId | null
  readonly shadow_reason: string | null
  readonly shadow_revision: number | null
}

const noDifference: ShadowColumns = {
  shadow_effect: null,
  shadow_rule_id: null,
  shadow_reason: null,
  shadow_revision: null
}

/** The first decision about a step, and the effect of the live rules that led to it. */
interface RuledStep {
  readonly decision: StepDecision
  readonly effect: RuleEffect
}

/**
 * Compares the first decision about a step with the ruling of the shadow rules. A step that was allowed although the live rules require
 * approval, because a person had allowed it before, would be allowed in the same way if the shadow rules require approval too.
 */
export const shadowColumns = (
  { decision, effect }: RuledStep,
  shadow: ShadowRuling | null
): ShadowColumns => {
  if (shadow === null || shadow.ruling.effect === effect) return noDifference
  if (shadow.ruling.effect === recordedEffect(decision)) return noDifference
  const { revision, ruling } = shadow
  return {
    shadow_effect: ruling.effect,
    shadow_rule_id: ruling.rule_id,
    shadow_reason: ruling.reason,
    shadow_revision: revision
  }
}

/** Every pair of effects that differ. */
export const differentEffects: ReadonlyArray<{ readonly live: RuleEffect; readonly shadow: RuleEffect }> =
  RuleEffect.literals.flatMap((live) =>
    RuleEffect.literals.flatMap((shadow) => (live === shadow ? [] : [{ live, shadow }]))
  )
