import { Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { KeyId, type OrgId, type RunId, SessionId, TaskId, type TraceId } from "../../../domain/Ids.ts"
import { JsonObject } from "../../../domain/tasks/Dataset.ts"
import type { RunRecord } from "../../../domain/tasks/Run.ts"
import { textArray } from "../../store/pgArrays.ts"
import { rowsOf } from "../../store/rows.ts"
import { ofExistingTask } from "../requireTask.ts"
import { LoggedRun, originOf } from "../Runs/rows.ts"

/** A run with everything that the API returns of it. */
const RunRow = Schema.Struct({
  ...LoggedRun.fields,
  session_id: Schema.NullOr(SessionId),
  metadata: JsonObject,
  created_by_id: KeyId,
  created_by_name: Schema.String,
  awaits_review: Schema.Boolean
})

const { awaits_review: _, ...storedFields } = RunRow.fields

const columns = [
  ...Object.keys(storedFields),
  `EXISTS (
    SELECT 1
    FROM run_reviews
    WHERE run_reviews.org_id = runs.org_id
      AND run_reviews.task_id = runs.task_id
      AND run_reviews.run_id = runs.run_id
  ) AS awaits_review`
].join(", ")

const runRows = rowsOf(RunRow)

const toRun = (row: typeof RunRow.Type): RunRecord => ({
  trace_id: row.trace_id,
  task_id: row.task_id,
  input: row.input,
  answer: row.answer,
  ...originOf(row),
  session_id: row.session_id,
  metadata: row.metadata,
  created_by: { id: row.created_by_id, name: row.created_by_name },
  awaits_review: row.awaits_review
})

/** Reads the organization's run; `undefined` if there is none. */
export const findRun = (sql: SqlClient.SqlClient, org_id: OrgId, trace_id: TraceId) =>
  Effect.map(
    runRows.first(sql`
      SELECT ${sql.literal(columns)}
      FROM runs
      WHERE org_id = ${org_id}
        AND trace_id = ${trace_id}
        AND ${ofExistingTask(sql, "runs")}
    `),
    (row) => (row === undefined ? undefined : toRun(row))
  )

/** Reads runs of a task, or of any existing one, by ids, newest first. */
export const readRuns = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  task_id: TaskId | undefined,
  ids: ReadonlyArray<RunId>
) =>
  Effect.map(
    runRows.all(sql`
      SELECT ${sql.literal(columns)}
      FROM runs
      WHERE org_id = ${org_id}
        AND ${task_id === undefined ? ofExistingTask(sql, "runs") : sql`task_id = ${task_id}`}
        AND run_id = ANY(${textArray(ids)})
      ORDER BY run_id DESC
    `),
    (rows) => rows.map(toRun)
  )

const dismissedRows = rowsOf(Schema.Struct({ task_id: TaskId, awaited_review: Schema.Boolean }))

/** Removes a run from the review queue. Returns its task, and whether it was in the queue; `undefined` if there is no such run. */
export const dismissReview = (sql: SqlClient.SqlClient, org_id: OrgId, trace_id: TraceId) =>
  dismissedRows.first(sql`
    WITH run AS (
      SELECT task_id, run_id
      FROM runs
      WHERE org_id = ${org_id}
        AND trace_id = ${trace_id}
        AND ${ofExistingTask(sql, "runs")}
    ), dismissed AS (
      DELETE FROM run_reviews
      USING run
      WHERE run_reviews.org_id = ${org_id}
        AND run_reviews.task_id = run.task_id
        AND run_reviews.run_id = run.run_id
      RETURNING 1
    )
    SELECT task_id, EXISTS (SELECT 1 FROM dismissed) AS awaited_review
    FROM run
  `)
