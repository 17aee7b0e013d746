import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import type { NewRun } from "../../../api/Tasks.ts"
import type { JsonObject } from "../../../domain/tasks/Dataset.ts"
import { generateTraceId, RunId, type TaskId, type TraceId } from "../../../domain/Ids.ts"
import type { Principal } from "../../../domain/identity/Principal.ts"
import { noUsage, type Usage } from "../../../domain/tasks/Provider.ts"
import { type TaskRun, parseTraceparent } from "../../../domain/tasks/Run.ts"
import { monotonicNow } from "../../concurrency/monotonicMillis.ts"
import type { ProviderAnswer } from "../Providers.ts"
import type { StoreClock } from "../../store/StoreClock.ts"
import type { SaveAnswer } from "./runIdempotency.ts"
import { type FinishedRun, insertRun, type RunPlan } from "./rows.ts"

/** What a run is begun with. */
export interface RunInput {
  readonly principal: Principal
  readonly task_id: TaskId
  readonly given: NewRun
  readonly traceparent: string | undefined
  readonly plan: RunPlan
  /** What is written of the answer by the statement that logs it. */
  readonly keep: SaveAnswer | undefined
}

/** A run that has begun, and how it may end. Each end is logged when it ends. */
export interface RunHandle {
  readonly trace_id: TraceId
  /** The provider answered. */
  readonly answered: (answer: ProviderAnswer) => Effect.Effect<TaskRun>
  /** The answer was made elsewhere. */
  readonly given: (answer: JsonObject) => Effect.Effect<TaskRun>
  readonly failed: (why: string, spent: Pick<FinishedRun, "usage" | "calls">) => Effect.Effect<void>
}

/** Begins a run. `finished` is told of its end once that is logged. */
export const beginRun = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  clock: StoreClock["Service"],
  finished: (run: FinishedRun) => Effect.Effect<void>,
  { given, keep, plan, principal, task_id, traceparent }: RunInput
) {
  const began = yield* monotonicNow
  const run = {
    org_id: principal.org_id,
    trace_id: yield* generateTraceId,
    run_id: yield* RunId.generate,
    task_id,
    task_name: plan.task_name,
    release_id: plan.release_id,
    dataset_id: plan.dataset_id,
    session_id: given.session_id ?? null,
    input: given.input,
    metadata: given.metadata ?? {},
    provider: plan.provider,
    caller_traceparent: parseTraceparent(traceparent),
    created_at: yield* clock.now,
    created_by: principal.actor
  }

  const log = Effect.fnUntraced(function* (
    end: Pick<FinishedRun, "source" | "answer" | "failure" | "usage" | "calls">,
    shown?: TaskRun
  ) {
    const done = { ...run, ...end, duration_ms: Math.round((yield* monotonicNow) - began) }
    const kept = shown === undefined ? undefined : yield* keep?.(shown) ?? Effect.undefined
    yield* Effect.orDie(insertRun(sql, done, kept))
    yield* finished(done)
  })

  const succeeded = (
    source: FinishedRun["source"],
    answer: JsonObject,
    usage: Usage,
    calls: FinishedRun["calls"]
  ) => {
    const { created_at, dataset_id, release_id, trace_id } = run
    const shown: TaskRun = { trace_id, task_id, release_id, dataset_id, answer, usage, created_at }
    return Effect.as(log({ source, answer, failure: null, usage, calls }, shown), shown)
  }

  const begun: RunHandle = {
    trace_id: run.trace_id,
    answered: ({ answer, calls, usage }) => succeeded("provider", answer, usage, calls),
    given: (answer) => succeeded("logged", answer, noUsage, []),
    failed: (failure, { calls, usage }) => log({ source: "provider", answer: null, failure, usage, calls })
  }
  return begun
})
