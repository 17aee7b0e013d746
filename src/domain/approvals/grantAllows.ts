import type { Schema } from "effect"
import { type KeyId, RuleId } from "../Ids.ts"
import type { ApprovalRule, Ruling } from "./ApprovalRule.ts"
import { fitsBudgets } from "./BudgetMeter.ts"
import type { CompiledRules } from "./CompiledRules.ts"
import { defaultRule } from "./defaultRule.ts"
import type { GrantScope } from "./Grant.ts"
import type { RuleCondition } from "./RuleCondition.ts"
import { mayAnswer, type Proposer } from "./StoredProposal.ts"

/** An active grant of the step's session, with the groups that the granting key has now. */
export interface StandingGrant {
  readonly scope: GrantScope
  readonly tool: string
  readonly action_class: string
  /** The `grantDigest` of the approved step; null unless the scope is `arguments`. */
  readonly content_digest: string | null
  readonly conditions: GrantConditions
  readonly granter: Proposer
}

/** A step that its rule does not decide. */
export interface AskingStep {
  readonly tool: string
  readonly action_class: string
  /** Undefined if the agent sent none. */
  readonly arguments: Schema.Json | undefined
  /** Its `grantDigest`. */
  readonly contentDigest: () => string
  /** The key that created the session, and the key that submits the step. */
  readonly requesters: ReadonlyArray<KeyId>
  readonly ruling: Ruling
}

/** The conditions of a grant, compiled once for many steps. */
export interface GrantConditions extends Pick<CompiledRules, "faults" | "exceeded" | "weight"> {
  /** Whether all conditions hold for a step's arguments. One that cannot be judged does not. */
  readonly hold: (stepArguments: Schema.Json | undefined) => boolean
}

/** The conditions belong to a rule that allows: of no list, so its id is never seen. */
const NO_RULE = RuleId.make(`rul_${"0".repeat(32)}`)

/** The list of rules whose only conditions are a grant's. The places of faults begin with `#/rules/0/when`. */
export const rulesOfGrant = (when: ReadonlyArray<RuleCondition>): ReadonlyArray<ApprovalRule> => [
  { ...defaultRule, id: NO_RULE, effect: "allow", when }
]

/** The conditions of a grant, from its compiled rules. */
export const conditionsOfGrant = ({
  evaluate,
  exceeded,
  faults,
  weight
}: CompiledRules): GrantConditions => ({
  faults,
  exceeded,
  weight,
  hold: (stepArguments) =>
    evaluate({ tool: "", action_class: "", task_id: null, arguments: stepArguments }, fitsBudgets).effect ===
    "allow"
})

/**
 * Whether a grant allows a step instead of a person. It stands for the approval of the person who made it, as the key is now: a step that
 * this person could not approve alone still asks. So a grant neither replaces a quorum of several people or of other groups, nor allows what
 * this key, or a key that made it, asks for, unless the rule permits self-approval. A step that a rule might reject, because
 * its conditions cannot be judged, always asks.
 */
export const grantAllows = (grant: StandingGrant, step: AskingStep): boolean =>
  step.ruling.effect === "require_approval" &&
  step.ruling.unjudged !== true &&
  mayAnswer(grant.granter, step.ruling.terms, step.requesters) &&
  covers(grant, step)

const covers = (grant: StandingGrant, step: AskingStep): boolean => {
  if (grant.tool !== step.tool || grant.action_class !== step.action_class) return false
  switch (grant.scope) {
    case "tool":
      return true
    case "arguments":
      return grant.content_digest === step.contentDigest()
    case "condition":
      return grant.conditions.hold(step.arguments)
  }
}
