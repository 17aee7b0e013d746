import { DateTime, Effect } from "effect"
import type { TermsQuery } from "../../../api/Reviewers.ts"
import {
  DEFAULT_TERMS,
  type ReviewerAmount,
  type ReviewerFigures
} from "../../../domain/approvals/Reviewer.ts"
import { bandAt } from "../../../domain/approvals/Reviewer/amountBand.ts"
import { countAnswers, weeksOf } from "../../../domain/approvals/Reviewer/countAnswers.ts"
import {
  missingDecisions,
  RECENT_APPROVALS,
  reviewerStanding,
  type ReviewerTerms
} from "../../../domain/approvals/Reviewer/reviewerStanding.ts"
import { readCounts } from "./answerRows.ts"
import type { ReviewerRow, ReviewerStore } from "./rows.ts"

/** Weeks with figures of their own. */
const MAX_WEEKS = 26

/** Reads the figures of a reviewer model, of each tool and band of amounts. */
export const readFigures = Effect.fnUntraced(function* (
  { clock, sql }: ReviewerStore,
  row: ReviewerRow,
  query: TermsQuery
) {
  const { counted, newest } = yield* readCounts(sql, row, {
    weeksSince: DateTime.subtract(yield* clock.now, { weeks: MAX_WEEKS }),
    recent: RECENT_APPROVALS
  })
  return groupsOf(counted).map((group) =>
    toFigures(
      row.amount,
      group,
      newest.find(({ band, tool }) => tool === group.tool && band === group.band),
      { ...DEFAULT_TERMS, ...query }
    )
  )
}, Effect.orDie)

type Counted = Effect.Success<ReturnType<typeof readCounts>>["counted"][number]
type Recent = Effect.Success<ReturnType<typeof readCounts>>["newest"][number]

interface CountedGroup {
  readonly tool: string
  readonly band: number
  readonly counted: Array<Counted>
}

/** The rows of each tool and band, in their order. */
const groupsOf = (counted: ReadonlyArray<Counted>): ReadonlyArray<CountedGroup> => {
  const groups: Array<CountedGroup> = []
  for (const one of counted) {
    const last = groups.at(-1)
    if (last?.tool === one.tool && last.band === one.band) last.counted.push(one)
    else groups.push({ tool: one.tool, band: one.band, counted: [one] })
  }
  return groups
}

const toFigures = (
  amount: ReviewerAmount | null,
  { band, counted, tool }: CountedGroup,
  recent: Recent | undefined,
  terms: ReviewerTerms
): ReviewerFigures => {
  const { counts, unsure } = countAnswers(counted, recent)
  const { agreement, approve, false_approvals, false_rejections, reject } = reviewerStanding(counts, terms)
  return {
    tool,
    band: bandAt(amount, band),
    has_amount: band >= 0,
    agreement,
    false_approvals,
    false_rejections,
    unsure,
    approve,
    reject,
    missing: missingDecisions(counts, terms) ?? null,
    weeks: weeksOf(counted)
  }
}
