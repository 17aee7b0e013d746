import { Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import type { PageRequest } from "../../../api/Pagination.ts"
import { Budget, type Spent } from "../../../domain/tasks/Budget.ts"
import {
  type Comparison,
  ComparisonResult,
  ComparisonStatus,
  type ComparisonVerdict
} from "../../../domain/tasks/Comparison.ts"
import { ComparisonTally, summarizeTally } from "../../../domain/tasks/ComparisonTally.ts"
import { Evaluators } from "../../../domain/tasks/Evaluator.ts"
import { HoldOut } from "../../../domain/tasks/HoldOut.ts"
import { Provider } from "../../../domain/tasks/Provider.ts"
import { Judge } from "../../../domain/tasks/Judge.ts"
import { ComparisonId, DatasetId, ExampleId, KeyId, OrgId, ReleaseId, TaskId } from "../../../domain/Ids.ts"
import { type Timestamp, TimestampFromDate, toDate } from "../../../domain/Time.ts"
import {
  toPageWithinBytes,
  beforeCursor,
  MAX_PAGE_BYTES,
  type Page,
  pageWithinBytes,
  rowLimit
} from "../../store/Pagination.ts"
import { countOf, hasRow, rowsOf } from "../../store/rows.ts"
import { ofExistingTask } from "../requireTask.ts"

/** The columns of a comparison's spending. */
export const spentColumns = {
  spent_calls: Schema.Int,
  spent_input_tokens: Schema.Finite,
  spent_output_tokens: Schema.Finite,
  spent_cost: Schema.NullOr(Schema.Finite)
}

/** A row of `comparisons`. */
const ComparisonRow = Schema.Struct({
  org_id: OrgId,
  comparison_id: ComparisonId,
  task_id: TaskId,
  /** The revision of the task's working copy that the candidate was created from. */
  task_revision: Schema.Int,
  live_release_id: ReleaseId,
  candidate_instructions: Schema.String,
  candidate_provider: Provider,
  candidate_dataset_id: Schema.NullOr(DatasetId),
  dataset_id: DatasetId,
  hold_out: HoldOut,
  evaluators: Evaluators,
  judge: Schema.NullOr(Judge),
  budget: Budget,
  /** How often each side answers each example. */
  repeats: Schema.Int,
  ...spentColumns,
  status: ComparisonStatus,
  example_count: Schema.Int,
  compared: Schema.Int,
  /** The last example that was compared. Examples are compared newest first. */
  last_example_id: Schema.NullOr(ExampleId),
  tally: ComparisonTally,
  /** Fencing token: raised by each claim. A replica with an older epoch can no longer write. */
  lease_epoch: Schema.Int,
  created_at: TimestampFromDate,
  created_by_id: KeyId,
  created_by_name: Schema.String,
  finished_at: Schema.NullOr(TimestampFromDate),
  /** Claims since a batch was last recorded: the failure budget. */
  attempts: Schema.Int,
  failure: Schema.NullOr(Schema.String)
})
export type ComparisonRow = typeof ComparisonRow.Type

/** The columns of `ComparisonRow`. */
export const comparisonColumns = Object.keys(ComparisonRow.fields).join(", ")

/** Reads rows of `comparisonColumns`. */
export const comparisonRows = rowsOf(ComparisonRow)

type SpentRow = Pick<ComparisonRow, keyof typeof spentColumns>

/** The spending of a comparison. */
export const toSpent = (row: SpentRow): Spent => ({
  calls: row.spent_calls,
  input_tokens: row.spent_input_tokens,
  output_tokens: row.spent_output_tokens,
  cost: row.spent_cost
})

/** The columns of a comparison's spending. */
export const fromSpent = ({ calls, cost, input_tokens, output_tokens }: Spent): SpentRow => ({
  spent_calls: calls,
  spent_input_tokens: input_tokens,
  spent_output_tokens: output_tokens,
  spent_cost: cost
})

/** The task of the compared examples. */
export const taskOfExamples = ({ hold_out, task_id }: ComparisonRow): TaskId =>
  hold_out.kind === "benchmark" ? hold_out.task_id : task_id

/** Converts a row to the API's comparison. */
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
  hold_out: row.hold_out,
  evaluators: row.evaluators,
  judge: row.judge,
  repeats: row.repeats,
  budget: row.budget,
  spent: toSpent(row),
  example_count: row.example_count,
  compared: row.compared,
  summary: summarizeTally(row.tally),
  created_at: row.created_at,
  created_by: { id: row.created_by_id, name: row.created_by_name },
  finished_at: row.finished_at,
  failure: row.failure
})

/** Finds the organization's comparison with this id. */
export const findComparison = (sql: SqlClient.SqlClient, org_id: OrgId, id: ComparisonId) =>
  comparisonRows.first(sql`
    SELECT ${sql.literal(comparisonColumns)}
    FROM comparisons
    WHERE org_id = ${org_id}
      AND comparison_id = ${id}
      AND ${ofExistingTask(sql, "comparisons")}
  `)

/** The texts of a comparison whose size only their limits bound, in bytes. */
const SIZE = [
  "candidate_instructions",
  "candidate_provider::text",
  "evaluators::text",
  "judge::text",
  "tally::text"
]
  .map((text) => `coalesce(octet_length(${text}), 0)`)
  .join(" + ")

const listedRows = rowsOf(Schema.Struct({ ...ComparisonRow.fields, found: Schema.Int }))

/** Reads a page of a task's comparisons, newest first. A page of comparisons with long instructions has fewer than `limit`. */
export const listComparisons = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  task_id: TaskId,
  request: PageRequest<ComparisonId>
) => {
  const { ctes, isOnPage } = pageWithinBytes(sql, {
    table: "comparisons",
    id: "comparison_id",
    bytes: SIZE,
    where: sql`org_id = ${org_id} AND task_id = ${task_id}`,
    request
  })
  return Effect.map(
    listedRows.all(sql`
      ${ctes}
      SELECT ${sql.literal(comparisonColumns)}, found
      FROM sized
        JOIN comparisons USING (comparison_id)
      WHERE org_id = ${org_id}
        AND task_id = ${task_id}
        AND ${isOnPage}
      ORDER BY comparison_id DESC
    `),
    (rows) => toPageWithinBytes(rows, toComparison, (row) => row.comparison_id)
  )
}

/** Counts the organization's running comparisons. */
export const countRunning = (sql: SqlClient.SqlClient, org_id: OrgId) =>
  countOf(sql`
    SELECT count(*)::int AS count
    FROM comparisons
    WHERE org_id = ${org_id}
      AND status = 'running'
  `)

/** Ends a running comparison as cancelled. Returns it; `undefined` if it has ended, or there is none. */
export const cancelComparison = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  id: ComparisonId,
  { at, failure }: { readonly at: Timestamp; readonly failure: string }
) =>
  comparisonRows.first(sql`
    UPDATE comparisons
    SET status = 'cancelled', failure = ${failure}, finished_at = ${toDate(at)}
    WHERE org_id = ${org_id}
      AND comparison_id = ${id}
      AND status = 'running'
    RETURNING ${sql.literal(comparisonColumns)}
  `)

/** Whether a comparison was cancelled. */
export const isCancelled = (sql: SqlClient.SqlClient, { comparison_id, org_id }: ComparisonRow) =>
  hasRow(sql`
    SELECT 1 AS found
    FROM comparisons
    WHERE org_id = ${org_id}
      AND comparison_id = ${comparison_id}
      AND status = 'cancelled'
  `)

/** Inserts a new comparison. */
export const insertComparison = (sql: SqlClient.SqlClient, row: ComparisonRow) => sql`
  INSERT INTO comparisons (
    org_id, comparison_id, task_id, task_revision, live_release_id, candidate_instructions, candidate_provider,
    candidate_dataset_id, dataset_id, hold_out, evaluators, judge, budget, repeats, status, example_count, tally, created_at, created_by_id, created_by_name
  )
  VALUES (
    ${row.org_id}, ${row.comparison_id}, ${row.task_id}, ${row.task_revision}, ${row.live_release_id},
    ${row.candidate_instructions}, ${JSON.stringify(row.candidate_provider)}, ${row.candidate_dataset_id}, ${row.dataset_id},
    ${JSON.stringify(row.hold_out)}, ${JSON.stringify(row.evaluators)},
    ${row.judge === null ? null : JSON.stringify(row.judge)}, ${JSON.stringify(row.budget)}, ${row.repeats},
    ${row.status}, ${row.example_count}, ${JSON.stringify(row.tally)}, ${toDate(row.created_at)}, ${row.created_by_id},
    ${row.created_by_name}
  )
`

const ResultRow = Schema.Struct({
  ...ComparisonResult.fields,
  /** Remaining results, counted up to one more than the page size. */
  found: Schema.Int
})

const resultRows = rowsOf(ResultRow)

/** Whether candidate and live release agree, by verdict: as JSON texts, which an index has. */
const agreements: Readonly<Record<ComparisonVerdict, readonly [candidate: string, live: string]>> = {
  win: ["true", "false"],
  regression: ["false", "true"],
  both_agree: ["true", "true"],
  neither_agrees: ["false", "false"]
}

/** The results to list. */
export interface ResultsRequest extends PageRequest<ExampleId> {
  /** Only results with this verdict. */
  readonly verdict?: ComparisonVerdict
}

/** The condition of `comparison_results` for a verdict. */
const hasVerdict = (sql: SqlClient.SqlClient, verdict: ComparisonVerdict | undefined) => {
  if (verdict === undefined) return sql.literal("")
  const [candidate, live] = agreements[verdict]
  return sql`AND candidate->>'agrees' = ${candidate} AND live->>'agrees' = ${live}`
}

/** Reads a page of a comparison's results, newest example first. A page of large results has fewer than `limit`. */
export const listResults = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  row: ComparisonRow,
  request: ResultsRequest
) {
  const limit = rowLimit(request)
  const rows = yield* resultRows.all(sql`
    WITH scanned AS MATERIALIZED (
      SELECT example_id, octet_length(candidate::text) + octet_length(live::text) + bytes AS bytes
      FROM comparison_results
        JOIN dataset_examples USING (org_id, example_id)
      WHERE org_id = ${row.org_id}
        AND comparison_id = ${row.comparison_id}
        AND task_id = ${taskOfExamples(row)}
        ${hasVerdict(sql, request.verdict)}
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
      FROM scanned
    )
    SELECT example_id, origin, input, answer AS expected, candidate, live, found
    FROM sized
      JOIN comparison_results USING (example_id)
      JOIN dataset_examples USING (org_id, example_id)
    WHERE org_id = ${row.org_id}
      AND comparison_id = ${row.comparison_id}
      AND task_id = ${taskOfExamples(row)}
      AND number < ${limit}
      AND (number = 1 OR sized.bytes <= ${MAX_PAGE_BYTES}::int)
    ORDER BY example_id DESC
  `)
  const page: Page<ComparisonResult, ExampleId> = toPageWithinBytes(
    rows,
    ({ found: _, ...result }) => result,
    (row) => row.example_id
  )
  return page
})
