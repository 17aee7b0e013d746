import { Array as Arr, Effect, Schema } from "effect"
import type { SqlClient, Statement } from "effect/sql"
import { JsonObject } from "../../../domain/tasks/Dataset.ts"
import {
  DatasetId,
  type OrgId,
  ReleaseId,
  type RunId,
  type SessionId,
  TaskId,
  TraceId
} from "../../../domain/Ids.ts"
import type { Actor } from "../../../domain/identity/Principal.ts"
import { Provider, type Usage } from "../../../domain/tasks/Provider.ts"
import { type Timestamp, TimestampFromDate, toDate } from "../../../domain/Time.ts"
import type { ProviderCall } from "../Providers.ts"

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

/** A run that is over, with everything that is logged of it. */
export interface FinishedRun {
  readonly org_id: OrgId
  readonly trace_id: TraceId
  readonly run_id: RunId
  readonly task_id: TaskId
  readonly task_name: string
  readonly release_id: ReleaseId
  readonly dataset_id: DatasetId | null
  readonly session_id: SessionId | null
  /** Whether a provider was asked, or the answer was logged by who made it. */
  readonly source: "provider" | "logged"
  readonly input: JsonObject
  /** Null where the run failed. */
  readonly answer: JsonObject | null
  /** Why it failed, in a sentence; null where it did not. */
  readonly failure: string | null
  readonly metadata: JsonObject
  readonly provider: Provider
  readonly usage: Usage
  /** The calls to a model, in their order; none where there was none to call. */
  readonly calls: ReadonlyArray<ProviderCall>
  /** The caller's `traceparent`: the run links to it. */
  readonly caller_traceparent: string | null
  /** When the run began. */
  readonly created_at: Timestamp
  readonly duration_ms: number
  readonly created_by: Actor
}

/**
 * Logs a run, together with what `kept` writes of it. One statement, for which no connection is reserved: where transactions wait for each
 * other in a crowd, an answer that was paid for is logged all the same.
 */
export const insertRun = (sql: SqlClient.SqlClient, run: FinishedRun, kept?: Statement.Fragment) => sql`
  ${kept === undefined ? sql.literal("") : sql`WITH kept AS (${kept})`}
  INSERT INTO runs (
    org_id, trace_id, run_id, task_id, release_id, dataset_id, session_id, source, status, input, answer, failure, metadata,
    provider, model, input_tokens, output_tokens, provider_calls, duration_ms, caller_traceparent, created_at, created_by_id,
    created_by_name
  )
  VALUES (
    ${run.org_id}, ${run.trace_id}, ${run.run_id}, ${run.task_id}, ${run.release_id}, ${run.dataset_id}, ${run.session_id},
    ${run.source}, ${run.answer === null ? "failed" : "succeeded"}, ${JSON.stringify(run.input)},
    ${run.answer === null ? null : JSON.stringify(run.answer)}, ${run.failure}, ${JSON.stringify(run.metadata)},
    ${run.provider.kind}, ${run.provider.model}, ${run.usage.input_tokens}, ${run.usage.output_tokens},
    ${run.calls.length}, ${run.duration_ms}, ${run.caller_traceparent}, ${toDate(run.created_at)}, ${run.created_by.id},
    ${run.created_by.name}
  )
`

/** What a run needs to know of its task, read by one statement: no schema, which may be large. */
const Plan = Schema.Struct({
  task_name: Schema.String,
  input_schema_digest: Schema.String,
  answer_schema_digest: Schema.String,
  /** Whether the task has run before or has a dataset, so that its shapes can no longer change. */
  fixed: Schema.Boolean,
  release_id: ReleaseId,
  instructions: Schema.String,
  provider: Provider,
  dataset_id: Schema.NullOr(DatasetId),
  session_known: Schema.Boolean
})
export type RunPlan = typeof Plan.Type

const decodePlan = Schema.decodeUnknownEffect(Schema.Array(Plan), { disableChecks: true })

/** The plan of a run: the task with its live release, and whether the session that is named exists. */
export const readRunPlan = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  task_id: TaskId,
  session_id: SessionId | null
) =>
  sql`
    SELECT
      tasks.name AS task_name, input_schema_digest, answer_schema_digest, first_run_at IS NOT NULL OR tasks.dataset_id IS NOT NULL AS fixed, release_id, releases.instructions, releases.provider,
      releases.dataset_id,
      ${
        session_id === null
          ? sql.literal("true")
          : sql`EXISTS (SELECT 1 FROM agent_sessions WHERE org_id = ${org_id} AND session_id = ${session_id})`
      } AS session_known
    FROM tasks
      JOIN releases ON releases.org_id = tasks.org_id AND releases.release_id = tasks.live_release_id
    WHERE tasks.org_id = ${org_id}
      AND tasks.task_id = ${task_id}
  `.pipe(Effect.flatMap(decodePlan), Effect.map(Arr.head))

/**
 * Fixes a task's shapes as they were when its first run was judged by them; false where they have changed since. In a transaction of its own:
 * it may wait for the task's row, and on a connection that others share they would wait, too.
 */
export const lockSchemas = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  task_id: TaskId,
  plan: RunPlan,
  now: Timestamp
) =>
  sql`
    UPDATE tasks
    SET first_run_at = coalesce(first_run_at, ${toDate(now)})
    WHERE org_id = ${org_id}
      AND task_id = ${task_id}
      AND input_schema_digest = ${plan.input_schema_digest}
      AND answer_schema_digest = ${plan.answer_schema_digest}
    RETURNING 1 AS fixed
  `.pipe(Effect.map((rows) => rows.length > 0))
