import { Effect, Metric } from "effect"
import type { DeletedCounts } from "../../domain/deletion/Deletion.ts"
import { deletedRecords } from "../observability/metricDefinitions.ts"

/** Counts deleted records in the metric, by what caused their deletion. */
export const countDeleted = (
  cause: "request" | "retention",
  { examples = 0, feedback = 0, runs = 0, sessions = 0 }: Partial<DeletedCounts>
): Effect.Effect<void> =>
  Effect.forEach(
    Object.entries({ examples, feedback, runs, sessions }),
    // Also by 0: a counter that appears with its first record has no rate then.
    ([records, count]) => Metric.update(deletedRecords(records, cause), count),
    { discard: true }
  )
