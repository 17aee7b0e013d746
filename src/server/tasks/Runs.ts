import { type Array as Arr, Context, Effect, Layer, Option } from "effect"
import { SqlClient } from "effect/sql"
import { randomUUID } from "node:crypto"
import { Authorized } from "../../api/Authorization.ts"
import { notFound } from "../../api/notFound.ts"
import {
  type IdempotencyKeyInUse,
  type IdempotencyKeyReused,
  InvalidInput,
  type LimitReached,
  NoExample,
  NoNearExample,
  NotFound,
  ProviderFailed,
  type RateLimited
} from "../../api/Problems.ts"
import type { NewRun } from "../../api/Tasks.ts"
import { describeFirst } from "../../domain/describeIssue.ts"
import type { JsonObject } from "../../domain/tasks/Dataset.ts"
import type { OrgId, TaskId, TraceId } from "../../domain/Ids.ts"
import type { Principal } from "../../domain/identity/Principal.ts"
import { sumUsage } from "../../domain/tasks/Provider.ts"
import { parseTraceparent, type TaskRun } from "../../domain/tasks/Run.ts"
import type { JsonSchema } from "../../domain/tasks/Task.ts"
import { callSpanId, exportedTrace } from "../../domain/telemetry/SpanConventions.ts"
import type { TraceContext } from "../../domain/telemetry/Span.ts"
import type { TraceMode } from "../../domain/telemetry/TelemetryDestination.ts"
import { formatTraceparent, parseTraceContext } from "../../domain/telemetry/TraceContext.ts"
import { redactFaults } from "../../domain/redaction/Redaction/redactFaults.ts"
import type { CompiledSchema } from "../../domain/tasks/CompiledSchema.ts"
import { nextTurn } from "../admission/LoopTurns.ts"
import { LruCache } from "../concurrency/LruCache.ts"
import { makeOnOwnConnection } from "../store/makeOnOwnConnection.ts"
import { isCluster } from "../store/Cluster.ts"
import { ABANDONED_WRITE_MILLIS, makeStatementBatcher } from "../store/makeStatementBatcher.ts"
import { atomic } from "../store/transaction.ts"
import { type NoAnswer, type ProviderAnswer, type ProviderCall, Providers } from "./Providers.ts"
import { beginRun, type RunHandle, type RunInput } from "./Runs/runLog.ts"
import { type SaveResponse, makeKeyClaim, makeRunIdempotency } from "./Runs/runIdempotency.ts"
import type { FinishedRun } from "./Runs/FinishedRun.ts"
import { insertRuns, insertRunsOnCluster, type NewRunRow } from "./Runs/insertRuns.ts"
import { isLargeRun, limitLargeRuns, textBytes } from "./Runs/limitLargeRuns.ts"
import { makeRunSlots } from "./Runs/makeRunSlots.ts"
import { lockSchemas, type LoggedRunPlan, readRunPlan, type RunPlan } from "./Runs/runPlan.ts"
import { LimitUse } from "../observability/LimitUse.ts"
import { OrganizationLimits } from "../admission/OrganizationLimits.ts"
import { rowBytes, StoredUsage } from "../identity/StoredUsage.ts"
import { KnownSecrets } from "../secrets/KnownSecrets.ts"
import { SecretBox } from "../secrets/SecretBox.ts"
import { CompiledSchemas } from "./CompiledSchemas.ts"
import { StoreClock } from "../store/StoreClock.ts"
import { redactObject } from "./redactJson.ts"
import { readSchemas } from "./Tasks/rows.ts"

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

/** The source of a run's answer. */
interface AnswerPlan {
  readonly task: RunPlan
  /** The task's answer schema, compiled; and as JSON, for providers that send it to a model. */
  readonly answers: CompiledSchema
  readonly schema: Effect.Effect<JsonSchema>
}

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
      const atomically = atomic(sql)
      const box = yield* SecretBox
      const clock = yield* StoreClock
      const providers = yield* Providers
      const schemas = yield* CompiledSchemas
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

      const schemaOf = (
        org_id: OrgId,
        task_id: TaskId,
        digest: string,
        column: "input_schema" | "answer_schema"
      ) =>
        schemas.get(
          digest,
          Effect.map(readSchemas(sql, org_id, task_id), (stored) => stored[column])
        )

      /** Validates the input, and the answer if the caller supplies it. Returns the compiled answer schema. */
      const validate = Effect.fnUntraced(function* (
        org_id: OrgId,
        task_id: TaskId,
        digests: Pick<RunPlan, "input_schema_digest" | "answer_schema_digest">,
        { answer, input }: NewRun
      ) {
        const inputs = yield* schemaOf(org_id, task_id, digests.input_schema_digest, "input_schema")
        const answers = yield* schemaOf(org_id, task_id, digests.answer_schema_digest, "answer_schema")
        yield* nextTurn
        yield* check(inputs, input, "#/input")
        yield* nextTurn
        if (answer !== undefined) yield* check(answers, answer, "#/answer")
        return answers
      })

      /** Reads the plan of a run and validates the request. From then on the task's schemas cannot change. */
      const readPlan = Effect.fnUntraced(function* (org_id: OrgId, task_id: TaskId, request: NewRun) {
        const session_id = request.session_id ?? null
        // The answers that clients log are not the canary's.
        const canary_key =
          request.answer === undefined ? (request.canary_key ?? session_id ?? randomUUID()) : null
        for (;;) {
          const task = yield* Effect.orDie(readRunPlan(sql, org_id, task_id, session_id, canary_key))
          if (task === undefined) return yield* notFound("task")
          if (task.is_reviewer) return yield* reviewerNotRun
          if (!task.session_exists) return yield* notFound("session", "#/session_id")
          const answers = yield* validate(org_id, task_id, task, request)
          if (task.schemas_locked) return { task, answers }
          // The first run locks the schemas. If they have just changed, the input is validated again with the new ones.
          if (yield* atomically(lockSchemas(sql, org_id, task_id, task, yield* clock.now))) {
            return { task, answers }
          }
        }
      })

      /** Reads the schema that a model gets, before the run begins: a task that was deleted by now has no run. */
      const answerSchemaFor = (org_id: OrgId, task_id: TaskId, { provider }: RunPlan) =>
        provider.kind === "examples"
          ? Effect.succeed(Effect.die(new Error("A provider of stored examples has read the answer schema")))
          : Effect.map(readSchemas(sql, org_id, task_id), ({ answer_schema }) =>
              Effect.succeed(answer_schema)
            )

      const callProvider = (
        org_id: OrgId,
        task_id: TaskId,
        input: JsonObject,
        { answers, schema, task }: AnswerPlan,
        traceparent: (call: number) => string,
        onCall: (call: ProviderCall) => void
      ) =>
        providers.answer({
          org_id,
          task_id,
          provider: task.provider,
          instructions: task.instructions,
          dataset_id: task.dataset_id,
          input,
          traceparent,
          onCall,
          answer: { compiled: answers, schema }
        })

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

      /** Answers a run with the provider, and logs the outcome: success, failure or interruption. */
      const answerRun = (
        run: RunHandle,
        answer: (onCall: (call: ProviderCall) => void) => Effect.Effect<ProviderAnswer, NoAnswer>
      ) =>
        Effect.uninterruptibleMask((restore) => {
          const calls: Array<ProviderCall> = []
          return restore(answer((call) => calls.push(call))).pipe(
            Effect.onInterrupt(() =>
              run.logFailure("The caller disconnected before the answer was ready.", {
                // Calls that completed before the interruption were billed.
                usage: sumUsage(calls.map(({ usage }) => usage)),
                calls,
                examples: []
              })
            ),
            Effect.flatMap(run.logProviderAnswer),
            Effect.catchTag("NoAnswer", (failure) =>
              Effect.andThen(
                run.logFailure(failure.detail, failure),
                Effect.fail(
                  failure.reason === "no_near_example"
                    ? new NoNearExample({ detail: failure.detail, trace_id: run.trace_id })
                    : failure.reason === "no_example"
                      ? new NoExample({ detail: failure.detail, trace_id: run.trace_id })
                      : new ProviderFailed({
                          detail: failure.detail,
                          reason: failure.reason,
                          trace_id: run.trace_id
                        })
                )
              )
            )
          )
        })

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
        const {
          answer_schema_digest,
          dataset_id,
          input_schema_digest,
          provider,
          redacts_runs,
          release_id,
          review_share,
          task_name
        } = task
        const plan = {
          task_name,
          input_schema_digest,
          answer_schema_digest,
          release_id,
          provider,
          dataset_id,
          review_share,
          redacts_runs
        }
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
          const read = yield* readPlan(org_id, task_id, request)
          const planned = { ...read, schema: yield* answerSchemaFor(org_id, task_id, read.task) }
          const run = yield* beginRun(insert, clock, {
            ...input,
            plan: planned.task,
            isPlanCached: false
          })
          return yield* answerRun(run, (onCall) =>
            callProvider(
              org_id,
              task_id,
              request.input,
              planned,
              callTraceparent(
                run.trace_id,
                parseTraceContext(parseTraceparent(traceparent)),
                planned.task.trace
              ),
              onCall
            )
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

/** An agent could try its steps on the model that decides them, without a trace and beyond its daily limits. */
const reviewerNotRun = Effect.fail(
  new NotFound({
    detail:
      "A reviewer model's task cannot be run: only this service asks it, about steps. Try a change of it in a comparison or the playground."
  })
)

/** Makes the `traceparent` of each call of a run, in the trace that the run is exported in. */
const callTraceparent =
  (trace_id: TraceId, caller: TraceContext | null, mode: TraceMode | null) =>
  (call: number): string => {
    const trace = exportedTrace({ trace_id, caller }, mode ?? "own")
    return formatTraceparent(trace.trace_id, callSpanId(trace_id, call), trace.caller?.flags)
  }

const check = (schema: CompiledSchema, value: JsonObject, at: string): Effect.Effect<void, InvalidInput> => {
  const errors = redactFaults(schema.check(value, at))
  const part = at === "#/input" ? "input" : "answer"
  return errors.length > 0
    ? Effect.fail(
        new InvalidInput({
          detail: `The ${part} does not match the task's ${part} schema: ${describeFirst(errors)}`,
          errors
        })
      )
    : Effect.void
}
