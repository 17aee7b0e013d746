import { Context, DateTime, Effect, Layer, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { Authorized } from "../../api/Authorization.ts"
import { MAX_WAITING_COUNT, TASK_ROW_DAYS, type TaskRow } from "../../api/console/TaskRows.ts"
import type { PageRequest } from "../../api/Pagination.ts"
import { DatasetId, KeyId, type OrgId, TaskId } from "../../domain/Ids.ts"
import { TimestampFromDate } from "../../domain/Time.ts"
import { type Page, rowLimit, toPage } from "../store/Pagination.ts"
import { rowsOf } from "../store/rows.ts"
import { StoreClock } from "../store/StoreClock.ts"

/** The rows of the console's list of tasks. */
export class TaskList extends Context.Service<
  TaskList,
  {
    /** Lists the tasks with their figures, newest first. */
    readonly list: (
      request: PageRequest<TaskId>
    ) => Effect.Effect<Page<TaskRow, TaskId>, never, Authorized<"tasks.read">>
  }
>()("countersign/server/tasks/TaskList") {
  static readonly layer = Layer.effect(
    TaskList,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const clock = yield* StoreClock
      return TaskList.of({
        list: Effect.fn("TaskList.list")(function* (request) {
          const { org_id, scopes } = yield* Authorized("tasks.read")
          const since = DateTime.formatIsoDate(
            DateTime.subtract(yield* clock.now, { days: TASK_ROW_DAYS - 1 })
          )
          const rows = yield* taskRows.all(selectTasks(sql, org_id, request, since))
          const { items, next_cursor } = toPage(request, rows, ({ task_id }) => task_id)
          const reads = { feedback: scopes.has("feedback.read"), runs: scopes.has("runs.read") }
          return { items: items.map((row) => toTaskRow(row, reads)), next_cursor }
        }, Effect.orDie)
      })
    })
  )
}

const TaskColumns = Schema.Struct({
  task_id: TaskId,
  name: Schema.String,
  model: Schema.NullOr(Schema.String),
  created_at: TimestampFromDate,
  created_by_id: KeyId,
  created_by_name: Schema.String,
  dataset_id: Schema.NullOr(DatasetId),
  version: Schema.NullOr(Schema.Int),
  example_count: Schema.NullOr(Schema.Int),
  runs: Schema.Int,
  positive: Schema.Int,
  neutral: Schema.Int,
  negative: Schema.Int,
  pending: Schema.Int,
  staged: Schema.Int,
  to_review: Schema.Int
})

const taskRows = rowsOf(TaskColumns)

const toTaskRow = (
  row: typeof TaskColumns.Type,
  reads: { readonly feedback: boolean; readonly runs: boolean }
): TaskRow => ({
  id: row.task_id,
  name: row.name,
  model: row.model,
  created_at: row.created_at,
  created_by: { id: row.created_by_id, name: row.created_by_name },
  dataset:
    row.dataset_id === null || row.version === null || row.example_count === null
      ? null
      : { id: row.dataset_id, version: row.version, example_count: row.example_count },
  runs: row.runs,
  feedback: reads.feedback ? { positive: row.positive, neutral: row.neutral, negative: row.negative } : null,
  pending_corrections: reads.feedback ? row.pending : null,
  staged_corrections: reads.feedback ? row.staged : null,
  runs_to_review: reads.runs ? row.to_review : null
})

/**
 * One statement for a page. `since`: the first day that is counted. Each figure reads an index, and at most `MAX_WAITING_COUNT` rows of a
 * queue: in the index's order, for which no plan can read the whole table.
 */
export const selectTasks = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  request: PageRequest<TaskId>,
  since: string
) => {
  const corrections = (status: "pending" | "staged") => sql`(
    SELECT count(*)::int
    FROM (
      SELECT 1
      FROM feedback
      WHERE feedback.org_id = ${org_id}
        AND feedback.task_id = listed.task_id
        AND feedback.status = ${status}
      ORDER BY feedback.score, feedback.feedback_id DESC
      LIMIT ${MAX_WAITING_COUNT}
    ) AS waiting
  )`
  return sql`
    WITH listed AS MATERIALIZED (
      SELECT task_id, name, provider, created_at, created_by_id, created_by_name, dataset_id
      FROM tasks
      WHERE org_id = ${org_id}
        ${request.cursor === undefined ? sql.literal("") : sql`AND task_id < ${request.cursor}`}
      ORDER BY task_id DESC
      LIMIT ${rowLimit(request)}
    ),
    ran AS (
      SELECT task_id, sum(runs)::int AS runs
      FROM run_counts
      WHERE org_id = ${org_id}
        AND day >= ${since}::date
        AND task_id IN (SELECT task_id FROM listed)
      GROUP BY task_id
    ),
    judged AS (
      SELECT task_id, sum(positive)::int AS positive, sum(neutral)::int AS neutral, sum(negative)::int AS negative
      FROM feedback_counts
      WHERE org_id = ${org_id}
        AND day >= ${since}::date
        AND task_id IN (SELECT task_id FROM listed)
      GROUP BY task_id
    )
    SELECT
      listed.task_id, listed.name,
      CASE WHEN listed.provider ->> 'kind' <> 'examples' THEN listed.provider ->> 'model' END AS model,
      listed.created_at, listed.created_by_id, listed.created_by_name,
      datasets.dataset_id, datasets.version, datasets.example_count,
      coalesce(ran.runs, 0) AS runs, coalesce(judged.positive, 0) AS positive, coalesce(judged.neutral, 0) AS neutral,
      coalesce(judged.negative, 0) AS negative,
      ${corrections("pending")} AS pending,
      ${corrections("staged")} AS staged,
      (
        SELECT count(*)::int
        FROM (
          SELECT 1
          FROM run_reviews
          WHERE run_reviews.org_id = ${org_id}
            -- A range, in whose order no other index is.
            AND run_reviews.task_id BETWEEN listed.task_id AND listed.task_id
          ORDER BY run_reviews.task_id, run_reviews.run_id
          LIMIT ${MAX_WAITING_COUNT}
        ) AS waiting
      ) AS to_review
    FROM listed
      LEFT JOIN datasets ON datasets.org_id = ${org_id} AND datasets.dataset_id = listed.dataset_id
      LEFT JOIN ran ON ran.task_id = listed.task_id
      LEFT JOIN judged ON judged.task_id = listed.task_id
    ORDER BY listed.task_id DESC
  `
}
