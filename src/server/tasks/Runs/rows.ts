import { Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { DatasetId, type OrgId, ReleaseId, TaskId, TraceId } from "../../../domain/Ids.ts"
import { JsonObject } from "../../../domain/tasks/Dataset.ts"
import { type RunOrigin, RunSource, RunStatus, UsedExample } from "../../../domain/tasks/Run.ts"
import { TimestampFromDate } from "../../../domain/Time.ts"
import { rowsOf } from "../../store/rows.ts"

/** A logged run: its content, and what answered it. */
export const LoggedRun = Schema.Struct({
  trace_id: TraceId,
  task_id: TaskId,
  release_id: ReleaseId,
  dataset_id: Schema.NullOr(DatasetId),
  source: RunSource,
  status: RunStatus,
  input: JsonObject,
  /** Null if the run failed. */
  answer: Schema.NullOr(JsonObject),
  failure: Schema.NullOr(Schema.String),
  provider: Schema.NullOr(Schema.String),
  model: Schema.NullOr(Schema.String),
  input_tokens: Schema.NullOr(Schema.Int),
  output_tokens: Schema.NullOr(Schema.Int),
  examples: Schema.Array(UsedExample),
  provider_calls: Schema.Int,
  answer_repaired: Schema.Boolean,
  duration_ms: Schema.NullOr(Schema.Finite),
  started_at: Schema.NullOr(TimestampFromDate),
  created_at: TimestampFromDate
})
export type LoggedRun = typeof LoggedRun.Type

/** What answered a run, as the API has it. */
export const originOf = ({
  answer_repaired,
  created_at,
  dataset_id,
  duration_ms,
  examples,
  failure,
  input_tokens,
  model,
  output_tokens,
  provider,
  provider_calls,
  release_id,
  source,
  started_at,
  status
}: LoggedRun): RunOrigin => ({
  release_id,
  dataset_id,
  source,
  status,
  failure,
  provider,
  model,
  usage: input_tokens === null && output_tokens === null ? null : { input_tokens, output_tokens },
  examples,
  provider_calls,
  answer_repaired,
  duration_ms,
  started_at,
  created_at
})

const columns = Object.keys(LoggedRun.fields).join(", ")

const runRows = rowsOf(LoggedRun)

/** Reads a logged run. The run of feedback that was read before may have been deleted, and the feedback with it. */
export const findLoggedRun = (sql: SqlClient.SqlClient, org_id: OrgId, trace_id: TraceId) =>
  runRows.first(sql`
    SELECT ${sql.literal(columns)}
    FROM runs
    WHERE org_id = ${org_id}
      AND trace_id = ${trace_id}
  `)
