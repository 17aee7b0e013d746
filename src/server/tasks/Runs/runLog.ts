import { Effect, Option } from "effect"
import type { SqlError } from "effect/sql"
import type { NewRun } from "../../../api/Tasks.ts"
import type { JsonObject } from "../../../domain/tasks/Dataset.ts"
import { generateTraceId, RunId, type TaskId, type TraceId } from "../../../domain/Ids.ts"
import type { Principal } from "../../../domain/identity/Principal.ts"
import { noUsage, unknownUsage } from "../../../domain/tasks/Provider.ts"
import { parseTraceparent, type TaskRun } from "../../../domain/tasks/Run.ts"
import { nextTurn } from "../../admission/LoopTurns.ts"
import { monotonicNow } from "../../concurrency/monotonicMillis.ts"
import type { ProviderAnswer } from "../Providers.ts"
import type { StoreClock } from "../../store/StoreClock.ts"
import type { ClaimKey, SaveResponse } from "./runIdempotency.ts"
import type { FinishedRun } from "./FinishedRun.ts"
import { type NewRunRow, toNewRunRow } from "./insertRuns.ts"
import type { LoggedRunPlan } from "./runPlan.ts"

/** The input of {@link beginRun}. */
export interface RunInput {
  readonly principal: Principal
  readonly task_id: TaskId
  readonly request: NewRun
  readonly traceparent: string | undefined
  readonly plan: LoggedRunPlan
  /** Whether the plan was not read for this run, so that the statement that logs the run must check it. */
  readonly isPlanCached: boolean
  /** Makes the statement that stores the response under the idempotency key, as part of the statement that logs the run. */
  readonly saveResponse: SaveResponse | undefined
  /** Makes the claim of the idempotency key, for a run that claims it by the statement that logs the run. */
  readonly claimKey?: ClaimKey
  /** Removes secrets from a run, if the plan says so. */
  readonly redact: (run: FinishedRun) => Effect.Effect<FinishedRun>
}

/** A run in progress. Exactly one of its methods is called, and logs the run. */
export interface RunHandle {
  readonly trace_id: TraceId
  readonly logProviderAnswer: (answer: ProviderAnswer) => Effect.Effect<TaskRun>
  /** Logs an answer that the caller supplied. None: the cached plan is out of date or the key is claimed, and nothing was logged. */
  readonly logSuppliedAnswer: (answer: JsonObject) => Effect.Effect<Option.Option<TaskRun>>
  readonly logFailure: (
    failure: string,
    spent: Pick<FinishedRun, "examples" | "usage" | "calls">
  ) => Effect.Effect<void>
}

/** Begins a run. `insert` logs a run, or returns false if it did not. */
export const beginRun = Effect.fnUntraced(function* (
  insert: (row: NewRunRow) => Effect.Effect<boolean, SqlError.SqlError>,
  clock: StoreClock["Service"],
  { claimKey, isPlanCached, plan, principal, redact, request, saveResponse, task_id, traceparent }: RunInput
) {
  const startedAt = yield* monotonicNow
  const created_at = yield* clock.now
  const run = {
    org_id: principal.org_id,
    trace_id: yield* generateTraceId,
    run_id: yield* RunId.generateAt(created_at),
    task_id,
    task_name: plan.task_name,
    release_id: plan.release_id,
    dataset_id: plan.dataset_id,
    session_id: request.session_id ?? null,
    input: request.input,
    metadata: request.metadata ?? {},
    provider: plan.provider,
    answered_by: request.answered_by ?? null,
    caller_traceparent: parseTraceparent(traceparent),
    created_at,
    created_by: principal.actor
  }

  const log = Effect.fnUntraced(function* (
    outcome: Pick<FinishedRun, "source" | "answer" | "failure" | "examples" | "usage" | "calls"> &
      Partial<Pick<FinishedRun, "answer_repaired">>,
    response?: TaskRun
  ) {
    yield* nextTurn
    const finished = {
      ...run,
      answer_repaired: false,
      ...outcome,
      duration_ms: Math.round((yield* monotonicNow) - startedAt),
      awaits_review: outcome.answer !== null && isSampled(run.trace_id, plan.review_share)
    }
    const row = toNewRunRow(plan.redacts_runs ? yield* redact(finished) : finished, {
      cachedPlan: isPlanCached ? plan : null,
      saveResponse:
        response === undefined || saveResponse === undefined ? undefined : yield* saveResponse(response),
      claim: response === undefined || claimKey === undefined ? undefined : yield* claimKey(response)
    })
    yield* nextTurn
    const isLogged = yield* Effect.orDie(insert(row))
    // The response is encoded next.
    yield* nextTurn
    return isLogged
  })

  const responseWith = (
    answer: JsonObject,
    { examples, usage }: Pick<FinishedRun, "examples" | "usage">
  ): TaskRun => {
    const { created_at, dataset_id, release_id, trace_id } = run
    return { trace_id, task_id, release_id, dataset_id, answer, examples, usage, created_at }
  }

  const handle: RunHandle = {
    trace_id: run.trace_id,
    logProviderAnswer: ({ answer, calls, examples, repaired: answer_repaired = false, usage }) => {
      const response = responseWith(answer, { examples, usage })
      return Effect.as(
        log({ source: "provider", answer, answer_repaired, failure: null, examples, usage, calls }, response),
        response
      )
    },
    logSuppliedAnswer: (answer) => {
      const response = responseWith(answer, {
        examples: [],
        usage: request.answered_by?.usage ?? unknownUsage
      })
      return Effect.map(
        log({ source: "logged", answer, failure: null, examples: [], usage: noUsage, calls: [] }, response),
        (isLogged) => (isLogged ? Option.some(response) : Option.none())
      )
    },
    logFailure: (failure, { calls, examples, usage }) =>
      Effect.asVoid(log({ source: "provider", answer: null, failure, examples, usage, calls }))
  }
  return handle
})

/** Whether a run is part of a share of the runs, by its random id. */
const isSampled = (trace_id: TraceId, share: number): boolean =>
  Number.parseInt(trace_id.slice(0, 8), 16) < share * 2 ** 32
