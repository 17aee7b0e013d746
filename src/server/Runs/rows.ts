import { Array as Arr, Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { JsonObject } from "../../domain/Dataset.ts"
import { DatasetId, type OrgId, ReleaseId, TaskId, TraceId } from "../../domain/Ids.ts"
import { TimestampFromDate } from "../../domain/Time.ts"

/** A run as it was logged: what feedback is given on. */
export const LoggedRun = Schema.Struct({
  trace_id: TraceId,
  task_id: TaskId,
  release_id: ReleaseId,
  dataset_id: Schema.NullOr(DatasetId),
  status: Schema.Literals(["succeeded", "failed"]),
  input: JsonObject,
  /** Null where the run failed. */
  answer: Schema.NullOr(JsonObject),
  created_at: TimestampFromDate
})
export type LoggedRun = typeof LoggedRun.Type

const columns = Object.keys(LoggedRun.fields).join(", ")

const decodeRuns = Schema.decodeUnknownEffect(Schema.Array(LoggedRun), { disableChecks: true })

/** The organization's run of this trace, if there is one. */
export const findRun = (sql: SqlClient.SqlClient, org_id: OrgId, trace_id: TraceId) =>
  sql`
    SELECT ${sql.literal(columns)}
    FROM runs
    WHERE org_id = ${org_id}
      AND trace_id = ${trace_id}
  `.pipe(Effect.flatMap(decodeRuns), Effect.map(Arr.head))
