import { Effect } from "effect"
import type { SqlClient, SqlError, Statement } from "effect/sql"
import type { OrgId } from "../../../domain/Ids.ts"
import { onlyOrganization } from "../../store/onlyOrganization.ts"
import { boolArray, float8Array, int4Array, textArray, timestamptzArray } from "../../store/pgArrays.ts"
import type { Usage } from "../../../domain/tasks/Provider.ts"
import type { ModelCall } from "../../../domain/tasks/Run.ts"
import { countedRunColumns, runCounts } from "../runCounts.ts"
import { addedMetadata } from "../runMetadata.ts"
import type { FinishedRun } from "./FinishedRun.ts"
import { claimCtes, claimsOf, type KeyClaim } from "./keyClaims.ts"
import type { LoggedRunPlan } from "./runPlan.ts"

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
 * Logs runs by one statement, and returns for each whether it was logged. A run with a cached plan is not logged if the plan has changed or
 * the session does not exist. A run that claims an idempotency key is not logged if the key is claimed already. `org_id` is the
 * organization of all runs, on a cluster. One statement needs no connection of its own, so a run that was paid for is logged even while all
 * transactions wait for connections. A row with `saveResponse` must be the only one.
 */
export const insertRuns = (
  sql: SqlClient.SqlClient,
  rows: ReadonlyArray<NewRunRow>,
  org_id?: OrgId
): Effect.Effect<ReadonlyArray<boolean>, SqlError.SqlError> => {
  const texts = (of: (row: NewRunRow) => string | null) => sql`${textArray(rows.map(of))}::text[]`
  const ofOrganization = (table: string) => onlyOrganization(sql, `${table}.org_id`, org_id)
  const ints = (of: (run: FinishedRun) => number | null) =>
    sql`${int4Array(rows.map(({ run }) => of(run)))}::int[]`
  const hasMetadata = rows.some(({ metadata }) => metadata !== "{}")
  const hasSampled = rows.some(({ run }) => run.awaits_review)
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
        ${texts(({ run }) => JSON.stringify(run.examples))},
        ${texts(({ run }) => callOf(run).provider ?? null)},
        ${texts(({ run }) => callOf(run).model ?? null)},
        ${ints((run) => callOf(run).usage?.input_tokens ?? null)},
        ${ints((run) => callOf(run).usage?.output_tokens ?? null)},
        ${ints(({ calls }) => calls.length)},
        ${float8Array(rows.map(({ run }) => callOf(run).duration_ms ?? null))}::float8[],
        ${timestamptzArray(rows.map(({ run }) => callOf(run).started_at ?? null))}::timestamptz[],
        ${texts(({ run }) => run.caller_traceparent)},
        ${timestamptzArray(rows.map(({ run }) => run.created_at))}::timestamptz[],
        ${texts(({ run }) => run.created_by.id)},
        ${texts(({ run }) => run.created_by.name)},
        ${boolArray(rows.map(({ run }) => run.awaits_review))}::bool[],
        ${boolArray(rows.map(({ run }) => run.answer_repaired))}::bool[],
        ${boolArray(rows.map(({ cachedPlan }) => cachedPlan !== null))}::bool[],
        ${texts(({ cachedPlan }) => cachedPlan?.task_name ?? null)},
        ${texts(({ cachedPlan }) => cachedPlan?.input_schema_digest ?? null)},
        ${texts(({ cachedPlan }) => cachedPlan?.answer_schema_digest ?? null)},
        ${float8Array(rows.map(({ cachedPlan }) => cachedPlan?.review_share ?? null))}::float8[],
        ${boolArray(rows.map(({ cachedPlan }) => cachedPlan?.redacts_runs === true))}::bool[]
      ) WITH ORDINALITY AS n (
        org_id, trace_id, run_id, task_id, release_id, dataset_id, session_id, source, input, answer, failure, metadata, examples,
        provider, model, input_tokens, output_tokens, provider_calls, duration_ms, started_at, caller_traceparent, created_at,
        created_by_id, created_by_name, awaits_review, answer_repaired, is_cached, task_name, input_schema_digest, answer_schema_digest,
        review_share, redacts_runs, number
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
                AND tasks.review_share = n.review_share
                AND releases.dataset_id IS NOT DISTINCT FROM n.dataset_id
            FROM tasks
              JOIN releases ON releases.org_id = tasks.org_id AND releases.release_id = tasks.live_release_id
            WHERE tasks.org_id = n.org_id
              ${ofOrganization("tasks")}
              AND tasks.task_id = n.task_id
            LIMIT 1
          ), false)
          AND n.redacts_runs = coalesce((
            SELECT (rules->>'redact_runs')::boolean
            FROM redaction_settings
            WHERE redaction_settings.org_id = n.org_id
              ${ofOrganization("redaction_settings")}
            LIMIT 1
          ), false)
          AND (
            n.session_id IS NULL
            OR coalesce((
              SELECT true
              FROM agent_sessions
              WHERE agent_sessions.org_id = n.org_id
                ${ofOrganization("agent_sessions")}
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
        examples, bytes, provider, model, input_tokens, output_tokens, provider_calls, duration_ms, started_at, caller_traceparent,
        created_at, created_by_id, created_by_name, answer_repaired
      )
      SELECT
        org_id, trace_id, run_id, task_id, release_id, dataset_id, session_id, source,
        CASE WHEN answer IS NULL THEN 'failed' ELSE 'succeeded' END, input::json, answer::json, failure, metadata::json,
        examples::json, octet_length(input) + coalesce(octet_length(answer), 0) + octet_length(metadata), provider, model, input_tokens,
        output_tokens, provider_calls, duration_ms, started_at, caller_traceparent, created_at, created_by_id,
        created_by_name, answer_repaired
      FROM checked
      WHERE ${isLogged}
      RETURNING ${sql.literal(countedRunColumns())}
    ), ${runCounts(sql, "logged", 1)}
    ${
      hasMetadata
        ? sql`, ${addedMetadata(sql, sql`SELECT org_id, task_id, run_id, metadata FROM checked WHERE ${isLogged}`)}`
        : sql.literal("")
    }
    ${
      hasSampled
        ? sql`, sampled AS (
            INSERT INTO run_reviews (org_id, task_id, run_id)
            SELECT org_id, task_id, run_id
            FROM checked
            WHERE awaits_review
              AND ${isLogged}
          )`
        : sql.literal("")
    }
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

/** The call that produced the answer: of the provider, or as the caller reported it. */
const callOf = ({
  answered_by,
  duration_ms,
  provider,
  source,
  usage
}: FinishedRun): Omit<ModelCall, "usage"> & { readonly usage?: Usage } =>
  source === "logged"
    ? (answered_by ?? {})
    : { provider: provider.kind, model: provider.model, usage, duration_ms }
