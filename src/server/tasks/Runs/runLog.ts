import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import type { NewRun } from "../../../api/Tasks.ts"
import type { JsonObject } from "../../../domain/tasks/Dataset.ts"
import { generateTraceId, RunId, type TaskId, type TraceId } from "../../../domain/Ids.ts"
import type { Principal } from "../../../domain/identity/Principal.ts"
import { noUsage, type Usage } from "../../../domain/tasks/Provider.ts"
import { parseTraceparent, type TaskRun } from "../../../domain/tasks/Run.ts"
import { monotonicNow } from "../../concurrency/monotonicMillis.ts"
import type { ProviderAnswer } from "../Providers.ts"
import type { StoreClock } from "../../store/StoreClock.ts"
import type { SaveResponse } from "./runIdempotency.ts"
import { type FinishedRun, insertRun, type RunPlan } from "./rows.ts"

/** The input of {@link beginRun}. */
export interface RunInput {
  readonly principal: Principal
  readonly task_id: TaskId
  readonly request: NewRun
  readonly traceparent: string | undefined
  readonly plan: RunPlan
  /** Makes the statement that stores the response under the idempotency key, as part of the statement that logs the run. */
  readonly saveResponse: SaveResponse | undefined
}

/** A run in progress. Exactly one of its methods is called, and logs the run. */
export interface RunHandle {
  readonly trace_id: TraceId
  readonly logProviderAnswer: (answer: ProviderAnswer) => Effect.Effect<TaskRun>
  /** Logs an answer that the caller supplied. */
  readonly logSuppliedAnswer: (answer: JsonObject) => Effect.Effect<TaskRun>
  readonly logFailure: (failure: string, spent: Pick<FinishedRun, "usage" | "calls">) => Effect.Effect<void>
}

/** Begins a run. Calls `onFinished` after the run is logged. */
export const beginRun = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  clock: StoreClock["Service"],
  onFinished: (run: FinishedRun) => Effect.Effect<void>,
  { plan, principal, request, saveResponse, task_id, traceparent }: RunInput
) {
  const startedAt = yield* monotonicNow
  const run = {
    org_id: principal.org_id,
    trace_id: yield* generateTraceId,
    run_id: yield* RunId.generate,
    task_id,
    task_name: plan.task_name,
    release_id: plan.release_id,
    dataset_id: plan.dataset_id,
    session_id: request.session_id ?? null,
    input: request.input,
    metadata: request.metadata ?? {},
    provider: plan.provider,
    caller_traceparent: parseTraceparent(traceparent),
    created_at: yield* clock.now,
    created_by: principal.actor
  }

  const log = Effect.fnUntraced(function* (
    outcome: Pick<FinishedRun, "source" | "answer" | "failure" | "usage" | "calls">,
    response?: TaskRun
  ) {
    const finished = { ...run, ...outcome, duration_ms: Math.round((yield* monotonicNow) - startedAt) }
    const saved = response === undefined ? undefined : yield* saveResponse?.(response) ?? Effect.undefined
    yield* Effect.orDie(insertRun(sql, finished, saved))
    yield* onFinished(finished)
  })

  const logSuccess = (
    source: FinishedRun["source"],
    answer: JsonObject,
    usage: Usage,
    calls: FinishedRun["calls"]
  ) => {
    const { created_at, dataset_id, release_id, trace_id } = run
    const response: TaskRun = { trace_id, task_id, release_id, dataset_id, answer, usage, created_at }
    return Effect.as(log({ source, answer, failure: null, usage, calls }, response), response)
  }

  const handle: RunHandle = {
    trace_id: run.trace_id,
    logProviderAnswer: ({ answer, calls, usage }) => logSuccess("provider", answer, usage, calls),
    logSuppliedAnswer: (answer) => logSuccess("logged", answer, noUsage, []),
    logFailure: (failure, { calls, usage }) =>
      log({ source: "provider", answer: null, failure, usage, calls })
  }
  return handle
})
