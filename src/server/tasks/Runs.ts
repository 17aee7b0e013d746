import { type Array as Arr, Context, Effect, Layer, Option, Struct } from "effect"
import { SqlClient } from "effect/sql"
import { Authorized } from "../../api/Authorization.ts"
import {
  type IdempotencyKeyInUse,
  type IdempotencyKeyReused,
  type InvalidInput,
  type LimitReached,
  type NoExample,
  type NoNearExample,
  type NotFound,
  type ProviderFailed,
  type RateLimited
} from "../../api/Problems.ts"
import type { NewRun } from "../../api/Tasks.ts"
import type { JsonObject } from "../../domain/tasks/Dataset.ts"
import type { OrgId, TaskId } from "../../domain/Ids.ts"
import type { Principal } from "../../domain/identity/Principal.ts"
import type { TaskRun } from "../../domain/tasks/Run.ts"
import { LruCache } from "../concurrency/LruCache.ts"
import { makeOnOwnConnection } from "../store/makeOnOwnConnection.ts"
import { isCluster } from "../store/Cluster.ts"
import { ABANDONED_WRITE_MILLIS, makeStatementBatcher } from "../store/makeStatementBatcher.ts"
import { Providers } from "./Providers.ts"
import { answerRun, answerSchemaFor, callTraceparent } from "./Runs/answerRun.ts"
import { beginRun, type RunInput } from "./Runs/runLog.ts"
import { type SaveResponse, makeKeyClaim, makeRunIdempotency } from "./Runs/runIdempotency.ts"
import type { FinishedRun } from "./Runs/FinishedRun.ts"
import { insertRuns, insertRunsOnCluster, type NewRunRow } from "./Runs/insertRuns.ts"
import { isLargeRun, limitLargeRuns, textBytes } from "./Runs/limitLargeRuns.ts"
import { makeRunSlots } from "./Runs/makeRunSlots.ts"
import { makePlanReader } from "./Runs/readPlan.ts"
import { loggedFields, type LoggedRunPlan } from "./Runs/runPlan.ts"
import { LimitUse } from "../observability/LimitUse.ts"
import { OrganizationLimits } from "../admission/OrganizationLimits.ts"
import { rowBytes, StoredUsage } from "../identity/StoredUsage.ts"
import { KnownSecrets } from "../secrets/KnownSecrets.ts"
import { SecretBox } from "../secrets/SecretBox.ts"
import { CompiledSchemas } from "./CompiledSchemas.ts"
import { StoreClock } from "../store/StoreClock.ts"
import { redactObject } from "./redactJson.ts"

/** The request headers of a run. */
export interface RunHeaders {
  /** The caller's trace context (W3C). The run's trace links to it. */
  readonly traceparent?: string
  readonly "idempotency-key"?: string
}

export type { FinishedRun } from "./Runs/FinishedRun.ts"
export type { LoggedRun } from "./Runs/rows.ts"

/** A hook that is called after each run is logged. It must not fail, and must return quickly: the response waits for it. */
export class RunFinished extends Context.Service<RunFinished, (run: FinishedRun) => Effect.Effect<void>>()(
  "countersign/server/tasks/Runs/RunFinished"
) {}

/** Runs that one statement logs. */
const MAX_BATCH = 64

/** Connections that large runs of all organizations use at a time. */
const MAX_OWN_CONNECTIONS = 4

/** Cached plans, over all organizations: some 10 MB. */
const MAX_CACHED_PLANS = 10_000

/** Runs tasks and logs the runs. */
export class Runs extends Context.Service<
  Runs,
  {
    /**
     * Answers an input with the live release, or logs the answer that the caller supplies. The run is logged before this returns; a run
     * that fails, or whose caller disconnects, is logged as failed. A repeated request with the same idempotency key returns the same
     * response. Runs beyond the organization's limit of runs that wait for a provider are refused.
     */
    readonly run: (
      task_id: TaskId,
      input: NewRun,
      headers: RunHeaders
    ) => Effect.Effect<
      TaskRun,
      | NotFound
      | InvalidInput
      | LimitReached
      | RateLimited
      | NoExample
      | NoNearExample
      | ProviderFailed
      | IdempotencyKeyReused
      | IdempotencyKeyInUse,
      Authorized<"tasks.run">
    >
  }
>()("countersign/server/tasks/Runs") {
  static readonly layer = Layer.effect(
    Runs,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const box = yield* SecretBox
      const clock = yield* StoreClock
      const providers = yield* Providers
      const { readPlan, validate } = makePlanReader(sql, clock, yield* CompiledSchemas)
      const onFinished = yield* RunFinished
      const withSlot = makeRunSlots(yield* OrganizationLimits, yield* LimitUse)
      const secrets = yield* KnownSecrets
      const usage = yield* StoredUsage

      /**
       * Plans by organization and task, for runs whose answer the caller supplies. The statement that logs such a run checks the plan, so a
       * plan that is out of date is never used. Only plans with locked schemas, which no longer change.
       */
      const plans = new LruCache<LoggedRunPlan>({ entries: MAX_CACHED_PLANS, weight: MAX_CACHED_PLANS })
      const planKey = (org_id: OrgId, task_id: TaskId): string => `${org_id} ${task_id}`

      // A large run would delay the small statements behind it on a shared connection.
      const onOwnConnection = makeOnOwnConnection(sql, MAX_OWN_CONNECTIONS)
      const clustered = yield* isCluster(sql)
      const insertRows = (rows: Arr.NonEmptyReadonlyArray<NewRunRow>) => {
        if (clustered) return insertRunsOnCluster(sql, rows)
        const inserted = insertRuns(sql, rows)
        return isLargeRun(rows[0]) ? onOwnConnection(inserted) : inserted
      }

      // Batched, because runs are logged at a high rate.
      const insertRow = yield* makeStatementBatcher({
        sql,
        maxBatch: MAX_BATCH,
        organizationOf: ({ run: { org_id } }: NewRunRow) => org_id,
        isLarge: (row: NewRunRow) => row.saveResponse !== undefined || isLargeRun(row),
        abandonedMillis: ABANDONED_WRITE_MILLIS,
        run: (rows) =>
          Effect.tap(insertRows(rows), (logged) =>
            Effect.forEach(
              rows,
              (row, index) => {
                if (logged[index] !== true) return Effect.void
                usage.add(row.run.org_id, { runs: 1, bytes: rowBytes.run + textBytes(row) })
                return onFinished(row.run)
              },
              {
                discard: true
              }
            )
          )
      })

      const insert = limitLargeRuns(insertRow)

      /** Removes secrets from a run before it is logged. The caller still gets the original answer. */
      const redact = Effect.fnUntraced(function* (run: FinishedRun) {
        const known = yield* secrets.forOrg(run.org_id)
        const input = yield* redactObject(run.input, known, "#/input")
        const answer = run.answer === null ? null : yield* redactObject(run.answer, known, "#/answer")
        const metadata = yield* redactObject(run.metadata, known, "#/metadata")
        return { ...run, input: input.value, answer: answer?.value ?? null, metadata: metadata.value }
      })

      const idempotent = makeRunIdempotency(sql, box, clock)
      const keyClaim = makeKeyClaim(box, clock)

      /** Logs an answer of the caller by the cached plan. None: nothing was logged, because there is no plan or it is out of date. */
      const logByCachedPlan = Effect.fnUntraced(function* (
        input: Omit<RunInput, "plan" | "isPlanCached">,
        answer: JsonObject
      ) {
        const { principal, request, task_id } = input
        const plan = plans.get(planKey(principal.org_id, task_id))
        // On a cluster each run reads its plan: a statement that checks one takes longer.
        if (plan === undefined || clustered) return Option.none()
        yield* validate(principal.org_id, task_id, plan, request)
        const run = yield* beginRun(insert, clock, { ...input, plan, isPlanCached: true })
        return yield* run.logSuppliedAnswer(answer)
      })

      /** Logs an answer of the caller: by the cached plan, or, if there is none or it is out of date, by the plan that it reads. */
      const logAnswer = Effect.fnUntraced(function* (
        input: Omit<RunInput, "plan" | "isPlanCached">,
        answer: JsonObject
      ) {
        const { principal, request, task_id } = input
        const { org_id } = principal
        const logged = yield* logByCachedPlan(input, answer)
        if (Option.isSome(logged)) return logged.value
        const { task } = yield* readPlan(org_id, task_id, request)
        const plan = Struct.pick(task, loggedFields)
        plans.set(planKey(org_id, task_id), plan, 1)
        const run = yield* beginRun(insert, clock, { ...input, plan, isPlanCached: false })
        return Option.getOrThrow(yield* run.logSuppliedAnswer(answer))
      })

      /** Performs and logs a run. The statement that logs it also stores the response, with the fragment of `saveResponse`. */
      const perform = Effect.fnUntraced(function* (
        principal: Principal,
        task_id: TaskId,
        request: NewRun,
        { traceparent }: RunHeaders,
        saveResponse?: SaveResponse
      ) {
        const input = { principal, task_id, request, traceparent, saveResponse, redact }
        if (request.answer !== undefined) return yield* logAnswer(input, request.answer)
        const { org_id } = principal
        return yield* Effect.gen(function* () {
          const { answers, task } = yield* readPlan(org_id, task_id, request)
          const schema = yield* answerSchemaFor(sql, org_id, task_id, task.provider)
          const run = yield* beginRun(insert, clock, { ...input, plan: task, isPlanCached: false })
          return yield* answerRun(run, (onCall) =>
            providers.answer({
              org_id,
              task_id,
              provider: task.provider,
              instructions: task.instructions,
              dataset_id: task.dataset_id,
              input: request.input,
              traceparent: callTraceparent(run.trace_id, traceparent, task.trace),
              onCall,
              answer: { compiled: answers, schema }
            })
          )
        }).pipe(withSlot(org_id, request.input))
      })

      return Runs.of({
        // Untraced, because runs are logged at a high rate.
        run: Effect.fnUntraced(function* (task_id, request, headers) {
          const principal = yield* Authorized("tasks.run")
          const requireCapacity = usage.requireCapacity(principal.org_id, "runs")
          const key = headers["idempotency-key"]
          if (key === undefined) {
            yield* requireCapacity
            return yield* perform(principal, task_id, request, headers)
          }
          const keyed = { principal, key, task_id, request }
          // A repeated request gets its response also if storage is full by now: a refusal waits for the claim of the key.
          if (request.answer !== undefined && (yield* usage.hasCapacity(principal.org_id, "runs"))) {
            const { traceparent } = headers
            const input = {
              principal,
              task_id,
              request,
              traceparent,
              saveResponse: undefined,
              redact,
              claimKey: keyClaim(keyed)
            }
            // A refused request continues below, because problems of the key take precedence over problems of the
            // content.
            const logged = yield* Effect.option(logByCachedPlan(input, request.answer))
            if (Option.isSome(logged) && Option.isSome(logged.value)) return logged.value.value
          }
          return yield* idempotent(keyed, (saveResponse) =>
            Effect.andThen(requireCapacity, perform(principal, task_id, request, headers, saveResponse))
          )
        })
      })
    })
  )
}
