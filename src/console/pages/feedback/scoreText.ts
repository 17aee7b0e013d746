import type { Score } from "../../../domain/tasks/Feedback.ts"

/** What a score says. */
export const scoreText = (score: Score): string =>
  score === 1 ? "✓ right" : score === -1 ? "✕ wrong" : "○ neutral"
