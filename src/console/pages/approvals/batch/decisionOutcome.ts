import type { DecisionResult } from "../../../../api/DecisionBatch.ts"
import { describeProgress } from "../../../../domain/approvals/Quorum.ts"
import type { Tone } from "../../../ui/Badge.tsx"
import { summarizeResults } from "../../../ui/ResultList.tsx"

/** The effect of a decision on one approval. */
export type DecisionOutcome = "decided" | "waiting" | "closed" | "refused" | "missing"

/**
 * `waiting`: it counts, and the quorum needs more. `closed`: it had ended before. `refused`: this key may not decide it, and it is still
 * pending. `missing`: it no longer exists.
 */
export const outcomeOf = ({ approval, problem }: DecisionResult): DecisionOutcome => {
  if (problem === null) return approval?.status === "pending" ? "waiting" : "decided"
  if (problem.code === "NOT_FOUND") return "missing"
  return approval === null ? "refused" : "closed"
}

export const outcomeTones: Record<DecisionOutcome, Tone> = {
  decided: "good",
  waiting: "wait",
  closed: "quiet",
  refused: "bad",
  missing: "quiet"
}

const summaries: Record<DecisionOutcome, string> = {
  decided: "decided",
  waiting: "waiting for others",
  closed: "ended before",
  refused: "not permitted",
  missing: "deleted"
}

/** How many approvals had which outcome: `3 decided, 1 ended before`. */
export const summarizeOutcomes = (results: ReadonlyArray<DecisionResult>): string =>
  summarizeResults(results, (result) => summaries[outcomeOf(result)])

/** What became of an approval that was not closed by this decision or before it; undefined if it is closed. */
export const openOutcomeText = ({ approval, problem }: DecisionResult): string | undefined => {
  if (problem === null) {
    return approval?.status === "pending" ? `Your approval counts: ${describeProgress(approval)}` : undefined
  }
  return approval === null ? `${problem.title}: ${problem.detail}` : undefined
}
