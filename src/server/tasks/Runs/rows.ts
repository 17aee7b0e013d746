import { Effect, Schema } from "effect"
import type { SqlClient, SqlError, Statement } from "effect/sql"
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
import { takeOverClaim } from "../../store/idempotencyKeys.ts"
import {
  boolArray,
  byteaArray,
  float8Array,
  int4Array,
  int8Array,
  textArray,
  timestamptzArray
} from "../../store/pgArrays.ts"
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

/** A run to log. */
export interface NewRunRow {
  readonly run: FinishedRun
  /** JSON texts. */
  readonly input: string
  readonly answer: string | null
  readonly metadata: string
  /** The plan that must still be the task's current one, if it was not read for this run; otherwise the run is not logged. */
  readonly cachedPlan: LoggedRunPlan | null
  /** A statement to execute if the run is logged: it stores the response under the run's claimed idempotency key. */
  readonly saveResponse: Statement.Fragment | undefined
  /** A claim that must succeed, otherwise the run is not logged. */
  readonly claim: KeyClaim | undefined
}

/** A claim of an idempotency key together with the response, for a run whose response is known before it is logged. */
export interface KeyClaim {
  readonly operation: string
  readonly key: string
  readonly fingerprint: Uint8Array
  readonly claimed_at: Timestamp
  /** The sealed response. */
  readonly answer: Uint8Array
}

/** Makes the row of a finished run. */
export const toNewRunRow = (
  run: FinishedRun,
  {
    cachedPlan = null,
    claim,
    saveResponse
  }: Partial<Pick<NewRunRow, "cachedPlan" | "claim" | "saveResponse">>
): NewRunRow => ({
  run,
  input: JSON.stringify(run.input),
  answer: run.answer === null ? null : JSON.stringify(run.answer),
  metadata: JSON.stringify(run.metadata),
  cachedPlan,
  claim,
  saveResponse
})

/**
 * Logs runs by one statement, and returns for each whether it was logged: a run with a cached plan is not if the plan has changed, or if the
 * session does not exist; a run that claims an idempotency key is not if the key is claimed already. One statement needs no connection of its own, so a run that was paid for is logged even while all transactions
 * wait for connections. A row with `saveResponse` must be the only one.
 */
export const insertRuns = (
  sql: SqlClient.SqlClient,
  rows: ReadonlyArray<NewRunRow>
): Effect.Effect<ReadonlyArray<boolean>, SqlError.SqlError> => {
  const texts = (of: (row: NewRunRow) => string | null) => sql`${textArray(rows.map(of))}::text[]`
  const ints = (of: (run: FinishedRun) => number) => sql`${int4Array(rows.map(({ run }) => of(run)))}::int[]`
  const [saveResponse] = rows.flatMap((row) => row.saveResponse ?? [])
  const claims = claimsOf(rows)
  const isLogged =
    claims.length === 0
      ? sql.literal("is_current")
      : sql.literal("is_current AND number NOT IN (SELECT number FROM unclaimed)")
  return sql<{ readonly number: number }>`
    WITH named AS (
      SELECT *
      FROM unnest(
        ${texts(({ run }) => run.org_id)},
        ${texts(({ run }) => run.trace_id)},
        ${texts(({ run }) => run.run_id)},
        ${texts(({ run }) => run.task_id)},
        ${texts(({ run }) => run.release_id)},
        ${texts(({ run }) => run.dataset_id)},
        ${texts(({ run }) => run.session_id)},
        ${texts(({ run }) => run.source)},
        ${texts(({ input }) => input)},
        ${texts(({ answer }) => answer)},
        ${texts(({ run }) => run.failure)},
        ${texts(({ metadata }) => metadata)},
        ${texts(({ run }) => run.provider.kind)},
        ${texts(({ run }) => run.provider.model)},
        ${ints(({ usage }) => usage.input_tokens)},
        ${ints(({ usage }) => usage.output_tokens)},
        ${ints(({ calls }) => calls.length)},
        ${float8Array(rows.map(({ run }) => run.duration_ms))}::float8[],
        ${texts(({ run }) => run.caller_traceparent)},
        ${timestamptzArray(rows.map(({ run }) => run.created_at))}::timestamptz[],
        ${texts(({ run }) => run.created_by.id)},
        ${texts(({ run }) => run.created_by.name)},
        ${boolArray(rows.map(({ cachedPlan }) => cachedPlan !== null))}::bool[],
        ${texts(({ cachedPlan }) => cachedPlan?.task_name ?? null)},
        ${texts(({ cachedPlan }) => cachedPlan?.input_schema_digest ?? null)},
        ${texts(({ cachedPlan }) => cachedPlan?.answer_schema_digest ?? null)}
      ) WITH ORDINALITY AS n (
        org_id, trace_id, run_id, task_id, release_id, dataset_id, session_id, source, input, answer, failure, metadata, provider,
        model, input_tokens, output_tokens, provider_calls, duration_ms, caller_traceparent, created_at, created_by_id,
        created_by_name, is_cached, task_name, input_schema_digest, answer_schema_digest, number
      )
    ), checked AS MATERIALIZED (
      SELECT
        n.*,
        NOT is_cached OR (
          -- Scalar subqueries with LIMIT, unlike EXISTS, are always index look-ups: a plan made while the tables were small never reads them
          -- whole.
          coalesce((
            SELECT
              tasks.name = n.task_name
                AND tasks.input_schema_digest = n.input_schema_digest
                AND tasks.answer_schema_digest = n.answer_schema_digest
                AND tasks.live_release_id = n.release_id
                AND releases.dataset_id IS NOT DISTINCT FROM n.dataset_id
            FROM tasks
              JOIN releases ON releases.org_id = tasks.org_id AND releases.release_id = tasks.live_release_id
            WHERE tasks.org_id = n.org_id
              AND tasks.task_id = n.task_id
            LIMIT 1
          ), false)
          AND (
            n.session_id IS NULL
            OR coalesce((
              SELECT true
              FROM agent_sessions
              WHERE agent_sessions.org_id = n.org_id
                AND agent_sessions.session_id = n.session_id
              LIMIT 1
            ), false)
          )
        ) AS is_current
      FROM named n
    )
    ${claims.length === 0 ? sql.literal("") : claimCtes(sql, claims)}
    , logged AS (
      INSERT INTO runs (
        org_id, trace_id, run_id, task_id, release_id, dataset_id, session_id, source, status, input, answer, failure, metadata,
        provider, model, input_tokens, output_tokens, provider_calls, duration_ms, caller_traceparent, created_at, created_by_id,
        created_by_name
      )
      SELECT
        org_id, trace_id, run_id, task_id, release_id, dataset_id, session_id, source,
        CASE WHEN answer IS NULL THEN 'failed' ELSE 'succeeded' END, input::json, answer::json, failure, metadata::json,
        provider, model, input_tokens, output_tokens, provider_calls, duration_ms, caller_traceparent, created_at, created_by_id,
        created_by_name
      FROM checked
      WHERE ${isLogged}
    )
    ${
      saveResponse === undefined
        ? sql.literal("")
        : sql`, saved AS (${saveResponse} AND (SELECT bool_and(is_current) FROM checked))`
    }
    SELECT number::int AS number
    FROM checked
    WHERE NOT (${isLogged})
  `.pipe(
    Effect.map((refused) => {
      const numbers = new Set(refused.map(({ number }) => number))
      return rows.map((_, index) => !numbers.has(index + 1))
    })
  )
}

/** A claim with the number of its row, from 1. */
interface NumberedClaim {
  readonly number: number
  readonly org_id: OrgId
  readonly claim: KeyClaim
  /** Whether a row before claims the same key. A statement cannot insert a key twice. */
  readonly isRepeated: boolean
}

const claimsOf = (rows: ReadonlyArray<NewRunRow>): ReadonlyArray<NumberedClaim> => {
  const keys = new Set<string>()
  return rows.flatMap(({ claim, run: { org_id } }, index) => {
    if (claim === undefined) return []
    const key = `${org_id} ${claim.operation} ${claim.key}`
    const isRepeated = keys.has(key)
    keys.add(key)
    return [{ number: index + 1, org_id, claim, isRepeated }]
  })
}

/** Claims the keys of the runs that are current. `unclaimed`: the numbers of the runs whose key is claimed already. */
const claimCtes = (sql: SqlClient.SqlClient, claims: ReadonlyArray<NumberedClaim>) => sql`
    , claims AS (
      SELECT *
      FROM unnest(
        ${int8Array(claims.map(({ number }) => number))}::bigint[],
        ${textArray(claims.map(({ org_id }) => org_id))}::text[],
        ${textArray(claims.map(({ claim }) => claim.operation))}::text[],
        ${textArray(claims.map(({ claim }) => claim.key))}::text[],
        ${byteaArray(claims.map(({ claim }) => claim.fingerprint))}::bytea[],
        ${timestamptzArray(claims.map(({ claim }) => claim.claimed_at))}::timestamptz[],
        ${byteaArray(claims.map(({ claim }) => claim.answer))}::bytea[],
        ${boolArray(claims.map(({ isRepeated }) => isRepeated))}::bool[]
      ) AS c (number, org_id, operation, key, fingerprint, created_at, answer, is_repeated)
    ), claimed AS (
      INSERT INTO idempotency_keys AS existing (org_id, operation, key, fingerprint, created_at, answer)
      SELECT c.org_id, c.operation, c.key, c.fingerprint, c.created_at, c.answer
      FROM claims c
        JOIN checked USING (number)
      WHERE is_current
        AND NOT is_repeated
      -- All statements claim keys in the same order, or two of them could deadlock.
      ORDER BY c.org_id, c.operation, c.key
      ${takeOverClaim(sql)}
      RETURNING org_id, operation, key
    ), unclaimed AS (
      SELECT number
      FROM claims c
      WHERE is_repeated
        OR NOT EXISTS (
          SELECT 1
          FROM claimed
          WHERE claimed.org_id = c.org_id
            AND claimed.operation = c.operation
            AND claimed.key = c.key
        )
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

/** The part of a plan that logging an answer of the caller needs, without the instructions, which may be long. */
export type LoggedRunPlan = Pick<
  RunPlan,
  "task_name" | "input_schema_digest" | "answer_schema_digest" | "release_id" | "provider" | "dataset_id"
>

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
