import { Effect, Schema } from "effect"
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
import { rowsOf } from "../../store/rows.ts"
import type { ProviderCall } from "../Providers.ts"

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

/** A finished run, with everything that is logged of it. */
export interface FinishedRun {
  readonly org_id: OrgId
  readonly trace_id: TraceId
  readonly run_id: RunId
  readonly task_id: TaskId
  readonly task_name: string
  readonly release_id: ReleaseId
  readonly dataset_id: DatasetId | null
  readonly session_id: SessionId | null
  /** `provider`: a provider produced the answer. `logged`: the caller supplied it. */
  readonly source: "provider" | "logged"
  readonly input: JsonObject
  /** Null if the run failed. */
  readonly answer: JsonObject | null
  /** Why the run failed, as a sentence; null if it succeeded. */
  readonly failure: string | null
  readonly metadata: JsonObject
  readonly provider: Provider
  readonly usage: Usage
  /** The calls to a model, in order; empty if the provider calls no model. */
  readonly calls: ReadonlyArray<ProviderCall>
  /** The caller's `traceparent`, which the run's trace links to. */
  readonly caller_traceparent: string | null
  /** The start of the run. */
  readonly created_at: Timestamp
  readonly duration_ms: number
  readonly created_by: Actor
}

/**
 * Logs a run, and executes `saveResponse` in the same statement. One statement needs no connection of its own, so a run that was paid for is
 * logged even while all transactions wait for connections.
 */
export const insertRun = (
  sql: SqlClient.SqlClient,
  run: FinishedRun,
  saveResponse?: Statement.Fragment
) => sql`
  ${saveResponse === undefined ? sql.literal("") : sql`WITH saved AS (${saveResponse})`}
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

/** The data of a task that a run needs, read by one statement. Without the schemas, which may be large. */
const RunPlan = Schema.Struct({
  task_name: Schema.String,
  input_schema_digest: Schema.String,
  answer_schema_digest: Schema.String,
  /** Whether the task has runs or a dataset, so that its schemas can no longer change. */
  schemas_locked: Schema.Boolean,
  release_id: ReleaseId,
  instructions: Schema.String,
  provider: Provider,
  dataset_id: Schema.NullOr(DatasetId),
  session_exists: Schema.Boolean
})
export type RunPlan = typeof RunPlan.Type

const planRows = rowsOf(RunPlan)

/** Reads the plan of a run: the task with its live release, and whether the request's session exists. */
export const readRunPlan = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  task_id: TaskId,
  session_id: SessionId | null
) =>
  planRows.first(sql`
    SELECT
      tasks.name AS task_name, input_schema_digest, answer_schema_digest,
      first_run_at IS NOT NULL OR tasks.dataset_id IS NOT NULL AS schemas_locked,
      release_id, releases.instructions, releases.provider, releases.dataset_id,
      ${
        session_id === null
          ? sql.literal("true")
          : sql`EXISTS (SELECT 1 FROM agent_sessions WHERE org_id = ${org_id} AND session_id = ${session_id})`
      } AS session_exists
    FROM tasks
      JOIN releases ON releases.org_id = tasks.org_id AND releases.release_id = tasks.live_release_id
    WHERE tasks.org_id = ${org_id}
      AND tasks.task_id = ${task_id}
  `)

/**
 * Locks a task's schemas, unless they have changed since its first run was validated; then it returns `false`. Call it in a transaction: it
 * may wait for the task's row, and on a shared connection the statements queued behind it would wait too.
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
    RETURNING 1 AS locked
  `.pipe(Effect.map((rows) => rows.length > 0))
