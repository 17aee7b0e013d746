import type { FeedbackRecord, Score } from "../../../domain/tasks/Feedback.ts"

/** The text of a score. */
export const scoreText = (score: Score): string =>
  score === 1 ? "✓ Correct" : score === -1 ? "✕ Incorrect" : "○ Neutral"

/** The text of a score, with its value if it has one. */
export const judgementText = ({
  score,
  score_value
}: Pick<FeedbackRecord, "score" | "score_value">): string =>
  score_value === null
    ? scoreText(score)
    : `${scoreText(score)} (${score_value.toLocaleString("en", { maximumFractionDigits: 2, signDisplay: "exceptZero" })})`
