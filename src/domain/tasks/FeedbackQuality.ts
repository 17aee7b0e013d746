import { Schema } from "effect"
import { documented } from "../documented.ts"
import { ReleaseId } from "../Ids.ts"
import { MAX_SCORE_LABELS, ScoreLabel } from "./Feedback.ts"
import { wilsonInterval } from "./wilsonInterval.ts"

/** Most days of feedback that are counted at once. */
export const MAX_QUALITY_DAYS = 366

/** Most counts per release and day in one response. */
export const MAX_QUALITY_ROWS = 2_000

const counts = {
  release_id: Schema.NullOr(ReleaseId).annotateKey({
    description: "The release that answered the runs. Null for answers that clients logged."
  }),
  positive: Schema.Int.annotateKey({ description: "Feedback with the score 1." }),
  neutral: Schema.Int.annotateKey({ description: "Feedback with the score 0." }),
  negative: Schema.Int.annotateKey({ description: "Feedback with the score -1." }),
  score_mean: Schema.NullOr(Schema.Finite).annotateKey({
    description:
      "Mean of the scores, -1 to 1; of feedback with a `score_value`, of these values. Null without feedback."
  })
}

export const DailyFeedback = Schema.Struct({
  day: Schema.String.annotate({ format: "date" }).annotateKey({
    description: "Day of the feedback in UTC, such as `2026-11-21`."
  }),
  ...counts
}).annotate({ identifier: "DailyFeedback", description: "Feedback of one day on the runs of one release." })
export type DailyFeedback = typeof DailyFeedback.Type

export const LabelCount = Schema.Struct({
  label: ScoreLabel.annotateKey({ description: "The label." }),
  count: Schema.Int.annotateKey({ description: "Feedback with the label." })
}).annotate({ identifier: "LabelCount", description: "How much feedback has a label." })
export type LabelCount = typeof LabelCount.Type

export const ReleaseFeedback = Schema.Struct({
  ...counts,
  positive_share: Schema.NullOr(
    Schema.Struct({
      value: Schema.Finite.annotateKey({ description: "The share." }),
      low: Schema.Finite.annotateKey({ description: "Lower bound of its 95 % confidence interval." }),
      high: Schema.Finite.annotateKey({ description: "Upper bound of its 95 % confidence interval." })
    })
  ).annotateKey({
    description: "Share of the feedback with the score 1, with its Wilson interval. Null without feedback."
  }),
  labels: Schema.Array(LabelCount)
    .check(documented({ maxItems: MAX_SCORE_LABELS }))
    .annotateKey({ description: "Labels of the feedback, the most frequent first." }),
  first_day: Schema.String.annotate({ format: "date" }).annotateKey({
    description: "First of the days with feedback."
  }),
  last_day: Schema.String.annotate({ format: "date" }).annotateKey({
    description: "Last of the days with feedback."
  })
}).annotate({
  identifier: "ReleaseFeedback",
  description: "Feedback on the runs of one release, over all counted days."
})
export type ReleaseFeedback = typeof ReleaseFeedback.Type

export const FeedbackQuality = Schema.Struct({
  releases: Schema.Array(ReleaseFeedback)
    .check(documented({ maxItems: MAX_QUALITY_ROWS }))
    .annotateKey({ description: "Totals per release, the release with the newest feedback first." }),
  days: Schema.Array(DailyFeedback)
    .check(documented({ maxItems: MAX_QUALITY_ROWS }))
    .annotateKey({
      description: `Counts per day and release, newest day first. Days without feedback are absent. At most ${MAX_QUALITY_ROWS.toLocaleString("en-US")}; the totals then cover only these.`
    })
}).annotate({
  identifier: "FeedbackQuality",
  description: "How the answers of a task's releases were scored."
})
export type FeedbackQuality = typeof FeedbackQuality.Type

/** Counts of feedback by score. */
export interface ScoreCounts {
  readonly positive: number
  readonly neutral: number
  readonly negative: number
  /** Sum over the feedback with a `score_value` of that value less its `score`. */
  readonly value_excess: number
}

/** Counts of one day and release. */
export interface DailyCounts extends ScoreCounts {
  readonly day: string
  readonly release_id: ReleaseId | null
}

const total = ({ negative, neutral, positive }: Omit<ScoreCounts, "value_excess">): number =>
  positive + neutral + negative

/** The mean of the scores; null without feedback. */
export const scoreMean = (scores: ScoreCounts): number | null =>
  total(scores) === 0 ? null : (scores.positive - scores.negative + scores.value_excess) / total(scores)

/** The share of positive feedback with its confidence interval; null without feedback. */
export const positiveShare = (scores: Omit<ScoreCounts, "value_excess">): ReleaseFeedback["positive_share"] =>
  total(scores) === 0
    ? null
    : { value: scores.positive / total(scores), ...wilsonInterval(scores.positive, total(scores)) }

/** The counts of a day as the API has them. */
export const toDailyFeedback = (counts: DailyCounts): DailyFeedback => {
  const { day, negative, neutral, positive, release_id } = counts
  return { day, release_id, positive, neutral, negative, score_mean: scoreMean(counts) }
}

/** Sums the counts of days by release. The days are newest first. */
export const sumByRelease = (
  days: ReadonlyArray<DailyCounts>,
  labelsOf: (release_id: ReleaseId | null) => ReadonlyArray<LabelCount>
): ReadonlyArray<ReleaseFeedback> => {
  const sums = new Map<
    ReleaseId | null,
    {
      positive: number
      neutral: number
      negative: number
      value_excess: number
      first_day: string
      last_day: string
    }
  >()
  for (const { day, negative, neutral, positive, release_id, value_excess } of days) {
    const sum = sums.get(release_id)
    if (sum === undefined) {
      sums.set(release_id, { positive, neutral, negative, value_excess, first_day: day, last_day: day })
      continue
    }
    sum.value_excess += value_excess
    sum.positive += positive
    sum.neutral += neutral
    sum.negative += negative
    sum.first_day = day
  }
  return Array.from(sums, ([release_id, sum]) => ({
    release_id,
    positive: sum.positive,
    neutral: sum.neutral,
    negative: sum.negative,
    score_mean: scoreMean(sum),
    positive_share: positiveShare(sum),
    labels: labelsOf(release_id),
    first_day: sum.first_day,
    last_day: sum.last_day
  }))
}
