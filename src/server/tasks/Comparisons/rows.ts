import { Array as Arr, Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import type { PageRequest } from "../../../api/Pagination.ts"
import { type Comparison, ComparisonResult, ComparisonStatus } from "../../../domain/tasks/Comparison.ts"
import { ComparisonTally, summarizeTally } from "../../../domain/tasks/ComparisonTally.ts"
import { ComparisonId, DatasetId, ExampleId, KeyId, OrgId, ReleaseId, TaskId } from "../../../domain/Ids.ts"
import { Provider } from "../../../domain/tasks/Provider.ts"
import { TimestampFromDate, toDate } from "../../../domain/Time.ts"
import {
  toPageWithinBytes,
  beforeCursor,
  MAX_PAGE_BYTES,
  type Page,
  rowLimit
} from "../../store/Pagination.ts"

/** A comparison as the store holds it. */
const ComparisonRow = Schema.Struct({
  org_id: OrgId,
  comparison_id: ComparisonId,
  task_id: TaskId,
  /** The task's working copy that the candidate was made of. */
  task_revision: Schema.Int,
  live_release_id: ReleaseId,
  candidate_instructions: Schema.String,
  candidate_provider: Provider,
  candidate_dataset_id: Schema.NullOr(DatasetId),
  dataset_id: DatasetId,
  status: ComparisonStatus,
  example_count: Schema.Int,
  compared: Schema.Int,
  /** The last example that was compared: they are walked newest first. */
  last_example_id: Schema.NullOr(ExampleId),
  tally: ComparisonTally,
  /** Rises with each taking over: who holds an older one writes nothing more. */
  lease_epoch: Schema.Int,
  created_at: TimestampFromDate,
  created_by_id: KeyId,
  created_by_name: Schema.String,
  finished_at: Schema.NullOr(TimestampFromDate)
})
export type ComparisonRow = typeof ComparisonRow.Type

/** The columns of `ComparisonRow`. */
export const comparisonColumns = Object.keys(ComparisonRow.fields).join(", ")

/** Rows of `comparisonColumns`. */
export const decodeComparisons = Schema.decodeUnknownEffect(Schema.Array(ComparisonRow), {
  disableChecks: true
})

/** A comparison as it is shown. */
export const toComparison = (row: ComparisonRow): Comparison => ({
  id: row.comparison_id,
  task_id: row.task_id,
  status: row.status,
  candidate: {
    instructions: row.candidate_instructions,
    provider: row.candidate_provider,
    dataset_id: row.candidate_dataset_id
  },
  live_release_id: row.live_release_id,
  dataset_id: row.dataset_id,
  example_count: row.example_count,
  compared: row.compared,
  summary: summarizeTally(row.tally),
  created_at: row.created_at,
  created_by: { id: row.created_by_id, name: row.created_by_name },
  finished_at: row.finished_at
})

/** The organization's comparison, if there is one of this id. */
export const findComparison = (sql: SqlClient.SqlClient, org_id: OrgId, id: ComparisonId) =>
  sql`
    SELECT ${sql.literal(comparisonColumns)}
    FROM comparisons
    WHERE org_id = ${org_id}
      AND comparison_id = ${id}
  `.pipe(Effect.flatMap(decodeComparisons), Effect.map(Arr.head))

/** The comparisons of a task, newest first, one more than the page holds. */
export const listComparisons = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  task_id: TaskId,
  request: PageRequest<ComparisonId>
) =>
  sql`
    SELECT ${sql.literal(comparisonColumns)}
    FROM comparisons
    WHERE org_id = ${org_id}
      AND task_id = ${task_id}
      ${beforeCursor(sql, "comparison_id", request.cursor)}
    ORDER BY comparison_id DESC
    LIMIT ${rowLimit(request)}
  `.pipe(Effect.flatMap(decodeComparisons))

/** How many comparisons of the organization are at work. */
export const countRunning = (sql: SqlClient.SqlClient, org_id: OrgId) =>
  sql<{ readonly count: number }>`
    SELECT count(*)::int AS count
    FROM comparisons
    WHERE org_id = ${org_id}
      AND status = 'running'
  `.pipe(Effect.map((rows) => rows[0]?.count ?? 0))

/** Writes a comparison that begins. */
export const insertComparison = (sql: SqlClient.SqlClient, row: ComparisonRow) => sql`
  INSERT INTO comparisons (
    org_id, comparison_id, task_id, task_revision, live_release_id, candidate_instructions, candidate_provider,
    candidate_dataset_id, dataset_id, status, example_count, tally, created_at, created_by_id, created_by_name
  )
  VALUES (
    ${row.org_id}, ${row.comparison_id}, ${row.task_id}, ${row.task_revision}, ${row.live_release_id},
    ${row.candidate_instructions}, ${JSON.stringify(row.candidate_provider)}, ${row.candidate_dataset_id}, ${row.dataset_id},
    ${row.status}, ${row.example_count}, ${JSON.stringify(row.tally)}, ${toDate(row.created_at)}, ${row.created_by_id},
    ${row.created_by_name}
  )
`

const ResultRow = Schema.Struct({
  ...ComparisonResult.fields,
  /** Results that are left from here on, as far as was looked: one more than the page may hold. */
  found: Schema.Int
})

const decodeResults = Schema.decodeUnknownEffect(Schema.Array(ResultRow), { disableChecks: true })

/** A page of a comparison's results, newest example first; fewer than were asked for where they are large. */
export const listResults = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  row: ComparisonRow,
  request: PageRequest<ExampleId>
) {
  const limit = rowLimit(request)
  const rows = yield* sql`
    WITH walked AS MATERIALIZED (
      SELECT example_id, octet_length(candidate::text) + octet_length(live::text) + bytes AS bytes
      FROM comparison_results
        JOIN dataset_examples USING (org_id, example_id)
      WHERE org_id = ${row.org_id}
        AND comparison_id = ${row.comparison_id}
        AND task_id = ${row.task_id}
        ${beforeCursor(sql, "example_id", request.cursor)}
      ORDER BY example_id DESC
      LIMIT ${limit}
    ),
    sized AS (
      SELECT
        example_id,
        sum(bytes) OVER (ORDER BY example_id DESC) AS bytes,
        row_number() OVER (ORDER BY example_id DESC) AS number,
        count(*) OVER ()::int AS found
      FROM walked
    )
    SELECT example_id, input, answer AS expected, candidate, live, found
    FROM sized
      JOIN comparison_results USING (example_id)
      JOIN dataset_examples USING (org_id, example_id)
    WHERE org_id = ${row.org_id}
      AND comparison_id = ${row.comparison_id}
      AND task_id = ${row.task_id}
      AND number < ${limit}
      AND (number = 1 OR sized.bytes <= ${MAX_PAGE_BYTES}::int)
    ORDER BY example_id DESC
  `.pipe(Effect.flatMap(decodeResults))
  const page: Page<ComparisonResult, ExampleId> = toPageWithinBytes(
    rows,
    ({ found: _, ...result }) => result,
    (row) => row.example_id
  )
  return page
})
