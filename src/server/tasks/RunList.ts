import { Context, Effect, Layer, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { Authorized } from "../../api/Authorization.ts"
import { MAX_ROW_TEXT, type RunRow, type RunRowFilter } from "../../api/console/RunRows.ts"
import type { PageRequest } from "../../api/Pagination.ts"
import { type OrgId, ReleaseId, type RunId, TaskId, TraceId } from "../../domain/Ids.ts"
import { Score } from "../../domain/tasks/Feedback.ts"
import { RunSource, RunStatus } from "../../domain/tasks/Run.ts"
import { TimestampFromDate } from "../../domain/Time.ts"
import type { Page } from "../store/Pagination.ts"
import { rowsOf } from "../store/rows.ts"
import { ListedRun, nextCursor, selectPage } from "./RunLog/listRuns.ts"

/** The stored size above which an input or answer is not read for a list. Its text may be some times as long. */
const MAX_STORED_BYTES = 16 * 1024

/** A page holds starts of texts only, so the size of the runs does not end it. */
const UNLIMITED_BYTES = 2 ** 31 - 1

/** The rows of the console's list of runs. */
export class RunList extends Context.Service<
  RunList,
  {
    /** Lists the runs of all tasks, or of one, newest first. Runs of a deleted task are left out, so a page can have fewer than `limit`. */
    readonly list: (
      request: PageRequest<RunId> & RunRowFilter
    ) => Effect.Effect<Page<RunRow, RunId>, never, Authorized<"runs.read">>
  }
>()("countersign/server/tasks/RunList") {
  static readonly layer = Layer.effect(
    RunList,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      return RunList.of({
        list: Effect.fn("RunList.list")(function* (request) {
          const { org_id, scopes } = yield* Authorized("runs.read")
          const rows = yield* listedRows.all(selectRows(sql, org_id, request))
          return {
            items: rows.flatMap((row) =>
              "trace_id" in row ? [toRunRow(row, scopes.has("feedback.read"))] : []
            ),
            next_cursor: nextCursor(rows)
          }
        }, Effect.orDie)
      })
    })
  )
}

const RunColumns = Schema.Struct({
  ...ListedRun.fields,
  trace_id: TraceId,
  task_id: TaskId,
  task_name: Schema.String,
  live_release_id: ReleaseId,
  canary_release_id: Schema.NullOr(ReleaseId),
  source: RunSource,
  status: RunStatus,
  model: Schema.NullOr(Schema.String),
  release_id: ReleaseId,
  input_tokens: Schema.NullOr(Schema.Int),
  output_tokens: Schema.NullOr(Schema.Int),
  duration_ms: Schema.NullOr(Schema.Finite),
  created_at: TimestampFromDate,
  awaits_review: Schema.Boolean,
  input_start: Schema.NullOr(Schema.String),
  answer_start: Schema.NullOr(Schema.String),
  failure_start: Schema.NullOr(Schema.String),
  score: Schema.NullOr(Score),
  has_correction: Schema.NullOr(Schema.Boolean)
})

// The columns of a run are null in a mark, and in a run of a deleted task.
const listedRows = rowsOf(Schema.Union([RunColumns, ListedRun]))

const toRunRow = (row: typeof RunColumns.Type, showsFeedback: boolean): RunRow => ({
  trace_id: row.trace_id,
  task_id: row.task_id,
  task_name: row.task_name,
  source: row.source,
  status: row.status,
  model: row.model,
  release_id: row.release_id,
  release_role:
    row.release_id === row.live_release_id
      ? "live"
      : row.release_id === row.canary_release_id
        ? "canary"
        : "earlier",
  usage:
    row.input_tokens === null && row.output_tokens === null
      ? null
      : { input_tokens: row.input_tokens, output_tokens: row.output_tokens },
  duration_ms: row.duration_ms,
  created_at: row.created_at,
  awaits_review: row.awaits_review,
  input_start: row.input_start,
  answer_start: row.answer_start,
  failure_start: row.failure_start,
  feedback:
    row.score === null || !showsFeedback
      ? null
      : { score: row.score, has_correction: row.has_correction === true }
})

/** One statement for a page: the runs with the names of their tasks and their newest feedback. */
export const selectRows = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  { task_id, ...request }: PageRequest<RunId> & RunRowFilter
) => sql`
  SELECT listed.run_id, listed.part, run.*
  FROM (${selectPage(sql, org_id, task_id, request, UNLIMITED_BYTES)}) AS listed
    LEFT JOIN LATERAL (
      SELECT
        runs.trace_id, runs.task_id, tasks.name AS task_name, tasks.live_release_id, tasks.canary_release_id,
        runs.source, runs.status, runs.model, runs.release_id, runs.input_tokens, runs.output_tokens, runs.duration_ms, runs.created_at,
        EXISTS (
          SELECT 1
          FROM run_reviews
          WHERE run_reviews.org_id = ${org_id}
            AND run_reviews.task_id = runs.task_id
            AND run_reviews.run_id = runs.run_id
        ) AS awaits_review,
        -- The stored size is known without reading the value.
        CASE WHEN pg_column_size(runs.input) <= ${MAX_STORED_BYTES}::int THEN left(runs.input::text, ${MAX_ROW_TEXT}::int) END AS input_start,
        CASE WHEN pg_column_size(runs.answer) <= ${MAX_STORED_BYTES}::int THEN left(runs.answer::text, ${MAX_ROW_TEXT}::int) END AS answer_start,
        left(runs.failure, ${MAX_ROW_TEXT}::int) AS failure_start,
        newest.score, newest.has_correction
      FROM runs
        JOIN tasks ON tasks.org_id = ${org_id} AND tasks.task_id = runs.task_id
        LEFT JOIN LATERAL (
          SELECT score, correction IS NOT NULL AS has_correction
          FROM feedback
          WHERE feedback.org_id = ${org_id}
            AND feedback.trace_id = runs.trace_id
            AND feedback.is_current
          ORDER BY feedback_id DESC
          LIMIT 1
        ) AS newest ON true
      WHERE listed.part = 'page'
        AND runs.org_id = ${org_id}
        AND runs.run_id = listed.run_id
    ) AS run ON true
  ORDER BY listed.run_id DESC
`
