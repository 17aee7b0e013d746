import { Array as Arr, DateTime, type Duration, Effect } from "effect"
import type { SqlClient } from "effect/sql"
import { type Timestamp, toDate } from "../../../domain/Time.ts"
import { textArray } from "../../store/pgArrays.ts"
import { type ComparisonRow, comparisonColumns, decodeComparisons } from "./rows.ts"
import type { ExampleComparison, ComparisonBatch } from "./compareBatch.ts"

/** Characters of results that one statement writes. A message of the store's protocol takes 16 MiB. */
const MAX_STATEMENT_CHARACTERS = 2 ** 21

/**
 * Takes on a comparison that nobody holds, of those at work the one that has waited longest since somebody held it: so they take turns. Each
 * taking raises its epoch, and what an earlier holder still writes finds nothing.
 */
export const claimComparison = (sql: SqlClient.SqlClient, now: Timestamp, lease: Duration.Duration) =>
  sql`
    UPDATE comparisons
    SET lease_epoch = lease_epoch + 1, lease_until = ${toDate(DateTime.addDuration(now, lease))}
    WHERE (org_id, comparison_id) IN (
      SELECT org_id, comparison_id
      FROM comparisons
      WHERE status = 'running'
        AND (lease_until IS NULL OR lease_until <= ${toDate(now)})
      ORDER BY lease_until NULLS FIRST
      LIMIT 1
      FOR NO KEY UPDATE SKIP LOCKED
    )
    RETURNING ${sql.literal(comparisonColumns)}
  `.pipe(Effect.flatMap(decodeComparisons), Effect.map(Arr.head))

/** Holds a comparison until then, unless another took it over; whether it is still held. */
export const renewLease = (sql: SqlClient.SqlClient, row: ComparisonRow, until: Timestamp) =>
  sql`
    UPDATE comparisons
    SET lease_until = ${toDate(until)}
    WHERE org_id = ${row.org_id}
      AND comparison_id = ${row.comparison_id}
      AND lease_epoch = ${row.lease_epoch}
      AND status = 'running'
    RETURNING 1 AS held
  `.pipe(Effect.map((rows) => rows.length > 0))

/** Within the caller's transaction: writes how far a comparison is, and its new results; false, and nothing, where another took it over. */
export const recordBatch = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  { compared, row }: ComparisonBatch,
  now: Timestamp,
  lease: Duration.Duration
) {
  const written = yield* sql`
    UPDATE comparisons
    SET
      status = ${row.status},
      compared = ${row.compared},
      last_example_id = ${row.last_example_id},
      tally = ${JSON.stringify(row.tally)},
      lease_until = ${toDate(DateTime.addDuration(now, lease))},
      finished_at = ${row.status === "completed" ? toDate(now) : null}
    WHERE org_id = ${row.org_id}
      AND comparison_id = ${row.comparison_id}
      AND lease_epoch = ${row.lease_epoch}
    RETURNING 1 AS written
  `
  if (written.length === 0) return false
  for (const group of groupsOf(compared)) {
    yield* sql`
      INSERT INTO comparison_results (org_id, comparison_id, example_id, candidate, live)
      SELECT ${row.org_id}, ${row.comparison_id}, example_id, candidate::json, live::json
      FROM unnest(
        ${textArray(group.map(({ id }) => id))},
        ${textArray(group.map(({ candidate }) => candidate))},
        ${textArray(group.map(({ live }) => live))}
      ) AS judged (example_id, candidate, live)
    `
  }
  return true
})

/** Results as texts, in groups that a message holds. */
const groupsOf = (judged: ReadonlyArray<ExampleComparison>) => {
  const groups: Array<Array<{ readonly id: string; readonly candidate: string; readonly live: string }>> = []
  let characters = Number.POSITIVE_INFINITY
  for (const { candidate, example, live } of judged) {
    const written = { id: example.id, candidate: JSON.stringify(candidate), live: JSON.stringify(live) }
    const length = written.candidate.length + written.live.length
    characters += length
    if (characters > MAX_STATEMENT_CHARACTERS) {
      groups.push([])
      characters = length
    }
    groups.at(-1)?.push(written)
  }
  return groups
}
