import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import type { ReleaseCandidate } from "../../../api/Comparisons.ts"
import { CandidateLost, ComparisonUnfinished, LiveReleaseChanged, NotFound } from "../../../api/Problems.ts"
import type { DatasetId, OrgId } from "../../../domain/Ids.ts"
import type { ComparisonSummary } from "../../../domain/tasks/Comparison.ts"
import { summarizeTally } from "../../../domain/tasks/ComparisonTally.ts"
import type { Release } from "../../../domain/tasks/Task.ts"
import { findComparison } from "../Comparisons/rows.ts"
import { findVersion } from "../Datasets/versionRows.ts"
import type { TaskRow } from "../Tasks/rows.ts"

/**
 * Returns the comparison whose candidate may be released over the live release. Without `force`, refuses a candidate that lost, or that was
 * compared with another release.
 */
export const chooseCandidate = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  task: TaskRow,
  live: Release,
  { comparison_id, force = false }: Pick<typeof ReleaseCandidate.Type, "comparison_id" | "force">
) {
  const comparison = yield* findComparison(sql, org_id, comparison_id)
  if (comparison?.task_id !== task.task_id) return yield* noComparison
  if (comparison.status !== "completed") {
    return yield* new ComparisonUnfinished({
      detail:
        comparison.status === "failed" || comparison.status === "cancelled"
          ? `The comparison ${comparison.status === "failed" ? "failed" : "was cancelled"}, so nothing shows whether its candidate is better. Start another one.`
          : `The comparison is still running: ${comparison.compared} of ${comparison.example_count} examples compared. Retry when it is completed.`
    })
  }
  if (live.comparison_id !== comparison_id && !force) {
    // A rollback makes the same content live under another id.
    if (![live.id, live.restored_release_id].includes(comparison.live_release_id)) {
      return yield* new LiveReleaseChanged({
        detail:
          "Another release was made live after the comparison was started. Compare the candidate with it, or send `force` with a `reason`.",
        current_release_id: live.id
      })
    }
    const defeat = defeatOf(summarizeTally(comparison.tally))
    if (defeat !== undefined) return yield* new CandidateLost({ detail: defeat })
  }
  return comparison
})

/** Fails if the dataset version of a release was deleted. The caller has locked the task's row, so none is being deleted. */
export const requireDataset = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  dataset_id: DatasetId | null
) {
  if (dataset_id === null) return
  if ((yield* findVersion(sql, org_id, dataset_id)) === undefined) return yield* datasetDeleted
})

const datasetDeleted = Effect.fail(
  new NotFound({ detail: "The dataset version of this release was deleted, so it cannot be made live." })
)

/** Why the comparison speaks against the candidate; undefined if it does not. */
const defeatOf = ({ candidate, live }: ComparisonSummary): string | undefined => {
  if (candidate.agreement === null || live.agreement === null) return undefined
  if (candidate.latency_ms === null) return "The candidate has no answer for any of the examples."
  return candidate.agreement < live.agreement
    ? candidate.repeats === null
      ? `The candidate agreed with ${candidate.agreed} examples, the live release with ${live.agreed}.`
      : `The candidate's agreement is ${candidate.agreement.toFixed(3)}, that of the live release ${live.agreement.toFixed(3)}.`
    : undefined
}

const noComparison = Effect.fail(
  new NotFound({
    detail: "No such comparison of this task.",
    errors: [{ pointer: "#/comparison_id", detail: "No such comparison" }]
  })
)
