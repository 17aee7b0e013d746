import { Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { DatasetId, type OrgId, ReleaseId, type SessionId, type TaskId } from "../../../domain/Ids.ts"
import { TraceMode } from "../../../domain/telemetry/TelemetryDestination.ts"
import { type Timestamp, toDate } from "../../../domain/Time.ts"
import { hasRow, rowsOf } from "../../store/rows.ts"
import { Provider } from "../../../domain/tasks/Provider.ts"

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
  /** Share of the runs with an answer that is sampled for review. */
  review_share: Schema.Finite,
  session_exists: Schema.Boolean,
  /** Whether the task is that of a reviewer model. */
  is_reviewer: Schema.Boolean,
  /** The traces of the organization's telemetry destination; null if it has none. */
  trace: Schema.NullOr(TraceMode),
  /** Whether the organization has runs redacted before they are logged. */
  redacts_runs: Schema.Boolean
})
export type RunPlan = typeof RunPlan.Type

/** The fields of a plan that logging an answer of the caller needs. The instructions, which may be long, are not cached for it. */
export const loggedFields = [
  "task_name",
  "input_schema_digest",
  "answer_schema_digest",
  "release_id",
  "provider",
  "dataset_id",
  "review_share",
  "redacts_runs"
] as const
export type LoggedRunPlan = Pick<RunPlan, (typeof loggedFields)[number]>

const planRows = rowsOf(RunPlan)

/**
 * Reads the plan of a run: the task with the release that answers it, and whether the request's session exists. That is the live release, or,
 * for its share of the keys, the canary. Without a key it is the live release.
 */
export const readRunPlan = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  task_id: TaskId,
  session_id: SessionId | null,
  canary_key: string | null
) =>
  planRows.first(sql`
    SELECT
      tasks.name AS task_name, input_schema_digest, answer_schema_digest,
      first_run_at IS NOT NULL OR tasks.dataset_id IS NOT NULL AS schemas_locked,
      release_id, releases.instructions, releases.provider, releases.dataset_id, review_share,
      ${
        session_id === null
          ? sql.literal("true")
          : sql`EXISTS (SELECT 1 FROM agent_sessions WHERE org_id = ${org_id} AND session_id = ${session_id})`
      } AS session_exists,
      EXISTS (SELECT 1 FROM reviewers WHERE org_id = ${org_id} AND reviewers.task_id = ${task_id}) AS is_reviewer,
      (SELECT trace FROM telemetry_destinations WHERE org_id = ${org_id}) AS trace,
      coalesce(
        (SELECT (rules->>'redact_runs')::boolean FROM redaction_settings WHERE org_id = ${org_id}),
        false
      ) AS redacts_runs
    FROM tasks
      JOIN releases ON releases.org_id = tasks.org_id
        AND releases.release_id = ${
          canary_key === null ? sql.literal("tasks.live_release_id") : answeringRelease(sql, canary_key)
        }
    WHERE tasks.org_id = ${org_id}
      AND tasks.task_id = ${task_id}
  `)

/** The canary if the key is among its share, else the live release. Four bytes of a digest: another canary has other keys. */
const answeringRelease = (sql: SqlClient.SqlClient, canary_key: string) => sql`
  CASE
    WHEN (
      'x' || left(encode(sha256(convert_to(tasks.canary_release_id || ' ' || ${canary_key}::text, 'UTF8')), 'hex'), 8)
    )::bit(32)::bigint < tasks.canary_share * 4294967296
      THEN tasks.canary_release_id
    ELSE tasks.live_release_id
  END
`

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
  hasRow(sql`
    UPDATE tasks
    SET first_run_at = coalesce(first_run_at, ${toDate(now)})
    WHERE org_id = ${org_id}
      AND task_id = ${task_id}
      AND input_schema_digest = ${plan.input_schema_digest}
      AND answer_schema_digest = ${plan.answer_schema_digest}
    RETURNING 1 AS locked
  `)
