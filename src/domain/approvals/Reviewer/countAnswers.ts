import type { ReviewerDecision, ReviewerVerdict, ReviewerWeek } from "../Reviewer.ts"
import type { ComparedAnswers, ReviewerCounts } from "./reviewerStanding.ts"

/** A number of equal answers in one week; null: before the counted weeks. */
export interface CountedAnswers {
  readonly week: string | null
  readonly answer: ReviewerDecision
  readonly verdict: ReviewerVerdict
  readonly answers: number
}

/** The counts of a reviewer about one tool and band, and the answers that left the decision to people. */
export interface AnswerTotals {
  readonly counts: ReviewerCounts
  readonly unsure: number
}

/** Adds up the counted answers of one tool and band. */
export const countAnswers = (
  counted: ReadonlyArray<CountedAnswers>,
  { agreed, disagreed }: ComparedAnswers = { agreed: 0, disagreed: 0 }
): AnswerTotals => {
  const total = (answer: ReviewerDecision, verdict: ReviewerVerdict) =>
    counted
      .filter((one) => one.answer === answer && one.verdict === verdict)
      .reduce((sum, { answers }) => sum + answers, 0)
  return {
    counts: {
      approve: { agreed: total("approve", "approve"), disagreed: total("approve", "reject") },
      reject: { agreed: total("reject", "reject"), disagreed: total("reject", "approve") },
      recent: { agreed, disagreed }
    },
    unsure: total("unsure", "approve") + total("unsure", "reject")
  }
}

/** The counted answers of one tool and band by week, newest first. */
export const weeksOf = (counted: ReadonlyArray<CountedAnswers>): ReadonlyArray<ReviewerWeek> => {
  const weeks = new Map<string, Array<CountedAnswers>>()
  for (const one of counted) {
    if (one.week === null) continue
    const known = weeks.get(one.week)
    if (known === undefined) weeks.set(one.week, [one])
    else known.push(one)
  }
  return [...weeks]
    .toSorted(([one], [other]) => (one < other ? 1 : -1))
    .map(([week, ofWeek]) => {
      const { counts, unsure } = countAnswers(ofWeek)
      return {
        week,
        agreed: counts.approve.agreed + counts.reject.agreed,
        false_approvals: counts.approve.disagreed,
        false_rejections: counts.reject.disagreed,
        unsure
      }
    })
}
