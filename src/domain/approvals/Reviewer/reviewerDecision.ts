import { isDefaultQuorum } from "../Quorum.ts"
import type { Ruling } from "../ApprovalRule.ts"
import type { RuleReviewer } from "../RuleReviewer.ts"
import type { ReviewerStanding } from "./reviewerStanding.ts"

/** The facts about a step that decide whether a reviewer is asked to decide it. */
export interface ReviewFacts {
  readonly ruling: Pick<Ruling, "effect" | "reviewer" | "terms" | "unjudged">
  /** Whether the key of a person submits it. */
  readonly isPersons: boolean
  /** Whether a counter-proposal or a standing grant of a person may allow it. */
  readonly mayHaveAdvance: boolean
  /** Whether the agent tries a call again that was not allowed. */
  readonly isRepeated: boolean
  /** Characters of its arguments as JSON. */
  readonly size: number
}

/** The largest arguments that a reviewer is asked about, in characters of JSON: more than a person reads, and less than hides a sentence. */
export const MAX_REVIEWED_ARGUMENTS = 16_384

/** Why people decide a step, and the reviewer is not asked. */
export type NotAsked = "no_reviewer" | "never" | "person" | "advance" | "repeated" | "too_large"

/** Why people decide a step without a question to its reviewer; null: it is asked, if it has earned it. */
export const reasonNotToAsk = ({
  isPersons,
  isRepeated,
  mayHaveAdvance,
  ruling,
  size
}: ReviewFacts): NotAsked | null => {
  const { effect, reviewer, terms, unjudged } = ruling
  if (reviewer === undefined) return "no_reviewer"
  // The rules are refused with these; a list that was stored in another way is not trusted.
  const isHuman = unjudged === true || terms.timeout_action === "allow" || !isDefaultQuorum(terms.quorum)
  if (effect !== "require_approval" || isHuman) return "never"
  if (isPersons) return "person"
  if (mayHaveAdvance) return "advance"
  if (isRepeated) return "repeated"
  return size > MAX_REVIEWED_ARGUMENTS ? "too_large" : null
}

/** Whether a reviewer may decide some steps of a tool and band. */
export const hasEarnedSome = ({ approve, reject }: Pick<ReviewerStanding, "approve" | "reject">): boolean =>
  approve === null || reject === null

/**
 * The decision that a reviewer's answer makes; undefined: the step is sampled, or the reviewer is unsure or has not earned decisions of this
 * kind, so that people decide. A step is sampled after the model was asked, so that the model server cannot tell which answers people check.
 */
export const decisionOfAnswer = (
  { approve, reject }: Pick<ReviewerStanding, "approve" | "reject">,
  answer: "approve" | "reject" | "unsure",
  isSampled: boolean
): "allow" | "reject" | undefined => {
  if (isSampled) return undefined
  switch (answer) {
    case "approve":
      return approve === null ? "allow" : undefined
    case "reject":
      return reject === null ? "reject" : undefined
    case "unsure":
      return undefined
  }
}

/** The terms of a rule's reviewer that its standing is computed with. */
export const termsOf = ({ max_false_approvals, min_lower_bound }: RuleReviewer) => ({
  max_false_approvals,
  min_lower_bound
})
