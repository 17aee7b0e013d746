import type { ReviewerDecision } from "../Reviewer.ts"
import {
  type ComparedAnswers,
  RECENT_APPROVALS,
  reviewerStanding,
  type ReviewerTerms
} from "./reviewerStanding.ts"

/** An answer that was compared with a person's decision. */
export interface ReplayedAnswer {
  /** Answers of different groups (a tool and a band) have bounds of their own. */
  readonly group: string
  readonly answer: ReviewerDecision
  readonly verdict: "approve" | "reject"
  /** Whether the model can decide such a step at all. */
  readonly isDecidable: boolean
  /** A number from 0 to 1 that is always the same for the step: below the share of the sample, the step goes to people. */
  readonly draw: number
}

/** The result of an answer. */
export type ReplayedFate = "decided" | "sampled" | "unsure" | "not_earned"

/** The state of one group. */
interface Group {
  approve: { agreed: number; disagreed: number }
  reject: { agreed: number; disagreed: number }
  /** Whether people agreed with the newest approvals, oldest first. */
  recent: Array<boolean>
  /** The decisions that it may make with these counts; undefined: to be computed. */
  may: { readonly approve: boolean; readonly reject: boolean } | undefined
}

/**
 * Replays answers in the order of people's decisions. Each call returns the result of an answer: it is decided only if the bounds held by the
 * earlier decisions of people. An answer that the model would have decided does not count afterwards, because no person
 * would have decided the step.
 */
export const makeReviewerBacktest = (terms: ReviewerTerms, sample: number) => {
  const groups = new Map<string, Group>()
  const find = (name: string): Group => {
    const known = groups.get(name)
    if (known !== undefined) return known
    const made: Group = {
      approve: { agreed: 0, disagreed: 0 },
      reject: { agreed: 0, disagreed: 0 },
      recent: [],
      may: undefined
    }
    groups.set(name, made)
    return made
  }
  const rightsOf = (group: Group) => {
    if (group.may !== undefined) return group.may
    const agreed = group.recent.filter((agrees) => agrees).length
    const recent: ComparedAnswers = { agreed, disagreed: group.recent.length - agreed }
    const standing = reviewerStanding({ approve: group.approve, reject: group.reject, recent }, terms)
    group.may = { approve: standing.approve === null, reject: standing.reject === null }
    return group.may
  }
  return (replayed: ReplayedAnswer): ReplayedFate => {
    const { answer, draw, isDecidable, verdict } = replayed
    if (answer === "unsure") return "unsure"
    const group = find(replayed.group)
    const may = isDecidable && rightsOf(group)[answer]
    if (may && draw >= sample) return "decided"
    const agrees = answer === verdict
    group[answer][agrees ? "agreed" : "disagreed"]++
    if (answer === "approve") {
      group.recent.push(agrees)
      if (group.recent.length > RECENT_APPROVALS) group.recent.shift()
    }
    group.may = undefined
    return may ? "sampled" : "not_earned"
  }
}
