import { type Array as Arr, Effect } from "effect"
import { SqlClient, type SqlError, type Statement } from "effect/sql"
import {
  bools,
  float8s,
  type GivenRows,
  insertGiven,
  int4s,
  texts,
  timestamps,
  unnestRows
} from "../../store/givenRows.ts"
import { lockOnNode } from "../../store/Cluster.ts"
import { transaction } from "../../store/transaction.ts"
import type { Usage } from "../../../domain/tasks/Provider.ts"
import type { ModelCall } from "../../../domain/tasks/Run.ts"
import { countedRunColumns, countRuns, runCounts } from "../runCounts.ts"
import { addedMetadata, insertMetadata } from "../runMetadata.ts"
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

/** The runs as given rows; `op` is the number of the row, from 1. */
const givenRuns = (rows: ReadonlyArray<NewRunRow>): GivenRows => {
  const of = <A>(value: (run: FinishedRun) => A): ReadonlyArray<A> => rows.map(({ run }) => value(run))
  return {
    ops: rows.map((_, index) => index + 1),
    columns: {
      org_id: texts(of((run) => run.org_id)),
      trace_id: texts(of((run) => run.trace_id)),
      run_id: texts(of((run) => run.run_id)),
      task_id: texts(of((run) => run.task_id)),
      release_id: texts(of((run) => run.release_id)),
      dataset_id: texts(of((run) => run.dataset_id)),
      session_id: texts(of((run) => run.session_id)),
      source: texts(of((run) => run.source)),
      input: texts(rows.map(({ input }) => input)),
      answer: texts(rows.map(({ answer }) => answer)),
      failure: texts(of((run) => run.failure)),
      metadata: texts(rows.map(({ metadata }) => metadata)),
      examples: texts(of((run) => JSON.stringify(run.examples))),
      provider: texts(of((run) => callOf(run).provider ?? null)),
      model: texts(of((run) => callOf(run).model ?? null)),
      input_tokens: int4s(of((run) => callOf(run).usage?.input_tokens ?? null)),
      output_tokens: int4s(of((run) => callOf(run).usage?.output_tokens ?? null)),
      provider_calls: int4s(of(({ calls }) => calls.length)),
      duration_ms: float8s(of((run) => callOf(run).duration_ms ?? null)),
      started_at: timestamps(of((run) => callOf(run).started_at ?? null)),
      caller_traceparent: texts(of((run) => run.caller_traceparent)),
      created_at: timestamps(of((run) => run.created_at)),
      created_by_id: texts(of((run) => run.created_by.id)),
      created_by_name: texts(of((run) => run.created_by.name)),
      answer_repaired: bools(of((run) => run.answer_repaired))
    }
  }
}

/** What a statement that checks the plans needs besides the runs. */
const givenPlans = (rows: ReadonlyArray<NewRunRow>): GivenRows["columns"] => ({
  awaits_review: bools(rows.map(({ run }) => run.awaits_review)),
  is_cached: bools(rows.map(({ cachedPlan }) => cachedPlan !== null)),
  task_name: texts(rows.map(({ cachedPlan }) => cachedPlan?.task_name ?? null)),
  input_schema_digest: texts(rows.map(({ cachedPlan }) => cachedPlan?.input_schema_digest ?? null)),
  answer_schema_digest: texts(rows.map(({ cachedPlan }) => cachedPlan?.answer_schema_digest ?? null)),
  review_share: float8s(rows.map(({ cachedPlan }) => cachedPlan?.review_share ?? null)),
  redacts_runs: bools(rows.map(({ cachedPlan }) => cachedPlan?.redacts_runs === true))
})

/** The columns of `runs`, over the given rows `n`. */
const RUN_COLUMNS = {
  org_id: "n.org_id",
  trace_id: "n.trace_id",
  run_id: "n.run_id",
  task_id: "n.task_id",
  release_id: "n.release_id",
  dataset_id: "n.dataset_id",
  session_id: "n.session_id",
  source: "n.source",
  status: "CASE WHEN n.answer IS NULL THEN 'failed' ELSE 'succeeded' END",
  input: "n.input::json",
  answer: "n.answer::json",
  failure: "n.failure",
  metadata: "n.metadata::json",
  examples: "n.examples::json",
  bytes: "octet_length(n.input) + coalesce(octet_length(n.answer), 0) + octet_length(n.metadata)",
  provider: "n.provider",
  model: "n.model",
  input_tokens: "n.input_tokens",
  output_tokens: "n.output_tokens",
  provider_calls: "n.provider_calls",
  duration_ms: "n.duration_ms",
  started_at: "n.started_at",
  caller_traceparent: "n.caller_traceparent",
  created_at: "n.created_at",
  created_by_id: "n.created_by_id",
  created_by_name: "n.created_by_name",
  answer_repaired: "n.answer_repaired"
}

/**
 * Logs runs of one organization on a cluster, whose plans were read for them, by small statements of one transaction: Citus sends these to the
 * organization's node almost without planning. Like every transaction, it may wait for a connection.
 */
export const insertRunsOnCluster = (
  sql: SqlClient.SqlClient,
  rows: Arr.NonEmptyReadonlyArray<NewRunRow>
): Effect.Effect<ReadonlyArray<boolean>, SqlError.SqlError> => {
  const given = givenRuns(rows)
  const runs = rows.map(({ run }) => run)
  const sampled = rows.flatMap(({ run }, index) => (run.awaits_review ? [index + 1] : []))
  const { org_id } = rows[0].run
  return transaction(
    Effect.gen(function* () {
      // First, as in every transaction: a move of the organization takes the locks of its tables in this order.
      yield* lockOnNode(sql, org_id, Effect.void)
      yield* insertGiven(sql, { into: "runs", columns: RUN_COLUMNS, rows: { n: given } }, given)
      yield* countRuns(sql, runs)
      yield* insertMetadata(sql, runs)
      yield* insertGiven(
        sql,
        {
          into: "run_reviews",
          columns: { org_id: "n.org_id", task_id: "n.task_id", run_id: "n.run_id" },
          rows: { n: given }
        },
        { ops: sampled, columns: {} }
      )
      for (const { saveResponse } of rows) if (saveResponse !== undefined) yield* sql`${saveResponse}`
      return rows.map(() => true)
    })
  ).pipe(Effect.provideService(SqlClient.SqlClient, sql))
}

/**
 * Logs runs by one statement, and returns for each whether it was logged. A run with a cached plan is not logged if the plan has changed or
 * the session does not exist. A run that claims an idempotency key is not logged if the key is claimed already. One statement needs no
 * connection of its own, so a run that was paid for is logged even while all transactions wait for connections. A row with `saveResponse`
 * must be the only one.
 */
export const insertRuns = (
  sql: SqlClient.SqlClient,
  rows: ReadonlyArray<NewRunRow>
): Effect.Effect<ReadonlyArray<boolean>, SqlError.SqlError> => {
  const hasMetadata = rows.some(({ metadata }) => metadata !== "{}")
  const hasSampled = rows.some(({ run }) => run.awaits_review)
  const [saveResponse] = rows.flatMap((row) => row.saveResponse ?? [])
  const claims = claimsOf(rows)
  const isLogged =
    claims.length === 0
      ? sql.literal("is_current")
      : sql.literal("is_current AND number NOT IN (SELECT number FROM unclaimed)")
  const { columns, ops } = givenRuns(rows)
  return sql<{ readonly number: number }>`
    WITH named AS (
      SELECT n.*, n.op AS number
      FROM ${unnestRows({ ops, columns: { ...columns, ...givenPlans(rows) } }, "n")}
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
              AND tasks.task_id = n.task_id
            LIMIT 1
          ), false)
          AND n.redacts_runs = coalesce((
            SELECT (rules->>'redact_runs')::boolean
            FROM redaction_settings
            WHERE redaction_settings.org_id = n.org_id
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
      INSERT INTO runs (${sql.literal(Object.keys(RUN_COLUMNS).join(", "))})
      SELECT ${sql.literal(Object.values(RUN_COLUMNS).join(", "))}
      FROM checked n
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
