import { alwaysValidInterval } from "./alwaysValidInterval.ts"

/** The decisions of people about equal answers of a reviewer. */
export interface ComparedAnswers {
  /** Decisions equal to the answer. */
  readonly agreed: number
  /** Decisions against the answer. */
  readonly disagreed: number
}

/** The answers of one release of a reviewer beside the decisions of people, about one tool and one band of amounts. */
export interface ReviewerCounts {
  readonly approve: ComparedAnswers
  readonly reject: ComparedAnswers
  /** The newest of its approvals, which show a fall that all of them would hide: at most `RECENT_APPROVALS`. */
  readonly recent: ComparedAnswers
}

/** The bounds that a reviewer must hold before it decides. */
export interface ReviewerTerms {
  /** The least share of answers with which people agree, 0 to 1. */
  readonly min_lower_bound: number
  /** The greatest share of its approvals that people reject, 0 to 1. */
  readonly max_false_approvals: number
}

/** A share with the bound that counts: it holds with a chance of 95 %, however often it is looked at. */
export interface BoundedShare {
  readonly count: number
  readonly of: number
  readonly bound: number
}

/** Why a reviewer may not decide. */
export type StandingFault = "agreement" | "false_approvals" | "fallen"

/** The right of a reviewer to decide about one tool and one band of amounts. */
export interface ReviewerStanding {
  /** Answers with which people agreed, and the least share that is likely. */
  readonly agreement: BoundedShare
  /** Its approvals that people rejected, and the greatest share that is likely. */
  readonly false_approvals: BoundedShare
  /** Its rejections that people approved, and the greatest share that is likely. */
  readonly false_rejections: BoundedShare
  /** Why it may not approve; null: it may. */
  readonly approve: StandingFault | null
  /** Why it may not reject; null: it may. */
  readonly reject: StandingFault | null
}

/** How many of the newest approvals are looked at for a fall. */
export const RECENT_APPROVALS = 50

/** A fall is recognized if a reviewer that keeps its bound would have as many false approvals with less than this chance. */
const FALL = 0.01

/** The chance of at least `count` of `of`, each with the chance `share`. */
const chanceOfAtLeast = (count: number, of: number, share: number): number => {
  if (share <= 0) return count > 0 ? 0 : 1
  if (share >= 1) return count > of ? 0 : 1
  let term = (1 - share) ** of
  let below = 0
  for (let i = 0; i < count; i++) {
    below += term
    term *= ((of - i) / (i + 1)) * (share / (1 - share))
  }
  return 1 - below
}

const least = (count: number, of: number): BoundedShare => ({
  count,
  of,
  bound: alwaysValidInterval(count, of).low
})
const greatest = (count: number, of: number): BoundedShare => ({
  count,
  of,
  bound: alwaysValidInterval(count, of).high
})

/**
 * Whether a reviewer may approve and reject by itself. A false approval does more harm than a needless question: approvals have a bound of
 * their own, which one more false approval can exceed, and rejections need the agreement alone.
 */
export const reviewerStanding = (
  { approve, recent, reject }: ReviewerCounts,
  { max_false_approvals, min_lower_bound }: ReviewerTerms
): ReviewerStanding => {
  const approvals = approve.agreed + approve.disagreed
  const rejections = reject.agreed + reject.disagreed
  const agreement = least(approve.agreed + reject.agreed, approvals + rejections)
  const false_approvals = greatest(approve.disagreed, approvals)
  const false_rejections = greatest(reject.disagreed, rejections)
  const agrees = agreement.bound >= min_lower_bound
  const hasFallen =
    chanceOfAtLeast(recent.disagreed, recent.agreed + recent.disagreed, max_false_approvals) < FALL
  const fault = (isWithin: boolean, of: StandingFault): StandingFault | null => {
    if (hasFallen) return "fallen"
    if (!agrees) return "agreement"
    return isWithin ? null : of
  }
  return {
    agreement,
    false_approvals,
    false_rejections,
    approve: fault(false_approvals.bound <= max_false_approvals, "false_approvals"),
    reject: fault(1 - false_rejections.bound >= min_lower_bound, "agreement")
  }
}

/** The greatest number of missing decisions that is said: a bound beyond it is out of reach. */
const MAX_MISSING = 100_000

/**
 * How many further approvals, all of them with people's agreement, the bound for approvals needs at least; 0: it holds. Undefined: more than
 * 100,000.
 */
export const missingDecisions = (counts: ReviewerCounts, terms: ReviewerTerms): number | undefined => {
  const holdsAfter = (more: number) => {
    const approve = { ...counts.approve, agreed: counts.approve.agreed + more }
    const kept = Math.max(0, RECENT_APPROVALS - more)
    const recent =
      more === 0
        ? counts.recent
        : {
            agreed: RECENT_APPROVALS - Math.min(kept, counts.recent.disagreed),
            disagreed: Math.min(kept, counts.recent.disagreed)
          }
    return reviewerStanding({ ...counts, approve, recent }, terms).approve === null
  }
  if (!holdsAfter(MAX_MISSING)) return undefined
  let enough = MAX_MISSING
  let tooFew = -1
  while (enough - tooFew > 1) {
    const middle = Math.floor((enough + tooFew) / 2)
    if (holdsAfter(middle)) enough = middle
    else tooFew = middle
  }
  return enough
}
