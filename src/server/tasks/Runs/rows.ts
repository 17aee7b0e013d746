import { Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { DatasetId, type OrgId, ReleaseId, TaskId, TraceId } from "../../../domain/Ids.ts"
import { JsonObject } from "../../../domain/tasks/Dataset.ts"
import { TimestampFromDate } from "../../../domain/Time.ts"
import { rowsOf } from "../../store/rows.ts"

/** A logged run, with the columns that feedback needs. */
export const LoggedRun = Schema.Struct({
  trace_id: TraceId,
  task_id: TaskId,
  release_id: ReleaseId,
  dataset_id: Schema.NullOr(DatasetId),
  status: Schema.Literals(["succeeded", "failed"]),
  input: JsonObject,
  /** Null if the run failed. */
  answer: Schema.NullOr(JsonObject),
  created_at: TimestampFromDate
})
export type LoggedRun = typeof LoggedRun.Type

const columns = Object.keys(LoggedRun.fields).join(", ")

const runRows = rowsOf(LoggedRun)

/** Reads a run that exists, because feedback references it; a missing row is a defect. */
export const getRun = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  trace_id: TraceId
) {
  const run = yield* runRows.first(sql`
    SELECT ${sql.literal(columns)}
    FROM runs
    WHERE org_id = ${org_id}
      AND trace_id = ${trace_id}
  `)
  return run ?? (yield* Effect.die(new Error(`Run ${trace_id} is referenced but missing`)))
})
