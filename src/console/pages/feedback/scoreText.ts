import type { Score } from "../../../domain/tasks/Feedback.ts"

/** The label of a score. */
export const scoreText = (score: Score): string =>
  score === 1 ? "✓ Correct" : score === -1 ? "✕ Incorrect" : "○ Neutral"
