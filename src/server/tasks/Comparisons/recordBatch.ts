import { type Duration, Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { ComparisonStatus } from "../../../domain/tasks/Comparison.ts"
import { toDate } from "../../../domain/Time.ts"
import { rowBytes } from "../../identity/StoredUsage.ts"
import { textArray } from "../../store/pgArrays.ts"
import { rowsOf } from "../../store/rows.ts"
import type { StoreClock } from "../../store/StoreClock.ts"
import type { ComparisonBatch, ExampleComparison } from "./compareBatch.ts"
import { timeFromNow } from "../../store/currentTime.ts"
import { taskOfExamples } from "./rows.ts"

/** Characters of results in one statement. A PostgreSQL protocol message of the client is limited to 16 MiB. */
const MAX_STATEMENT_CHARACTERS = 2 ** 21

/**
 * Writes a batch's results and the comparison's progress, and renews the lease. Call it in a transaction. Returns the
 * approximate size of the results and the status; undefined if another replica has claimed the comparison, in which
 * case nothing was written. A comparison that was cancelled meanwhile stays cancelled, with the results of the batch:
 * they were paid for.
 */
export const recordBatch = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  clock: StoreClock["Service"],
  { compared, row }: ComparisonBatch,
  lease: Duration.Duration
) {
  const now = yield* clock.now
  const updated = yield* updatedRows.first(sql`
    UPDATE comparisons
    SET
      status = CASE WHEN status = 'cancelled' THEN status ELSE ${row.status} END,
      compared = ${row.compared},
      last_example_id = ${row.last_example_id},
      tally = ${JSON.stringify(row.tally)},
      lease_until = ${timeFromNow(sql, clock, lease)},
      attempts = 0,
      failure = CASE WHEN status = 'cancelled' THEN failure ELSE ${row.failure} END,
      finished_at = CASE WHEN status = 'cancelled' THEN finished_at ELSE ${row.status === "running" ? null : toDate(now)}::timestamptz END
    WHERE org_id = ${row.org_id}
      AND comparison_id = ${row.comparison_id}
      AND lease_epoch = ${row.lease_epoch}
    RETURNING status
  `)
  if (updated === undefined) return undefined
  let bytes = 0
  for (const chunk of chunksOf(compared)) {
    const recorded = yield* sizeRows.all(sql`
      INSERT INTO comparison_results (org_id, comparison_id, example_id, candidate, live)
      SELECT ${row.org_id}, ${row.comparison_id}, example_id, candidate::json, live::json
      FROM unnest(
        ${textArray(chunk.map(({ id }) => id))},
        ${textArray(chunk.map(({ candidate }) => candidate))},
        ${textArray(chunk.map(({ live }) => live))}
      ) AS result (example_id, candidate, live)
        -- Not of examples that were erased meanwhile. An erasure waits for this transaction, and then deletes its results.
        CROSS JOIN LATERAL (
          SELECT
          FROM dataset_examples
          WHERE dataset_examples.org_id = ${row.org_id}
            AND dataset_examples.task_id = ${taskOfExamples(row)}
            AND dataset_examples.example_id = result.example_id
          FOR KEY SHARE SKIP LOCKED
        ) AS example
      RETURNING octet_length(candidate::text) + octet_length(live::text) AS bytes
    `)
    for (const result of recorded) bytes += rowBytes.result + result.bytes
  }
  return { bytes, status: updated.status }
})

const sizeRows = rowsOf(Schema.Struct({ bytes: Schema.Int }))

const updatedRows = rowsOf(Schema.Struct({ status: ComparisonStatus }))

/** The results as JSON texts, in chunks that fit one statement. */
const chunksOf = (compared: ReadonlyArray<ExampleComparison>) => {
  const chunks: Array<Array<{ readonly id: string; readonly candidate: string; readonly live: string }>> = []
  let characters = Number.POSITIVE_INFINITY
  for (const { candidate, example, live } of compared) {
    const result = { id: example.id, candidate: JSON.stringify(candidate), live: JSON.stringify(live) }
    const length = result.candidate.length + result.live.length
    characters += length
    if (characters > MAX_STATEMENT_CHARACTERS) {
      chunks.push([])
      characters = length
    }
    chunks.at(-1)?.push(result)
  }
  return chunks
}
