import { Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { Authorized } from "../../api/Authorization.ts"
import { notFound } from "../../api/notFound.ts"
import {
  type IdempotencyKeyInUse,
  type IdempotencyKeyReused,
  InvalidInput,
  type NotFound,
  ProviderFailed
} from "../../api/Problems.ts"
import type { NewRun } from "../../api/Tasks.ts"
import type { JsonObject } from "../../domain/tasks/Dataset.ts"
import type { OrgId, SessionId, TaskId } from "../../domain/Ids.ts"
import type { Principal } from "../../domain/identity/Principal.ts"
import { addUsage, noUsage } from "../../domain/tasks/Provider.ts"
import type { TaskRun } from "../../domain/tasks/Run.ts"
import { redactFaults } from "../../domain/redaction/Redaction/redactFaults.ts"
import type { CompiledSchema } from "../../domain/tasks/CompiledSchema.ts"
import { atomic } from "../store/transaction.ts"
import { type NoAnswer, type ProviderAnswer, type ProviderCall, Providers } from "./Providers.ts"
import { beginRun, type RunHandle } from "./Runs/runLog.ts"
import { type SaveResponse, makeRunIdempotency } from "./Runs/runIdempotency.ts"
import { type FinishedRun, lockSchemas, type RunPlan, readRunPlan } from "./Runs/rows.ts"
import { SecretBox } from "../secrets/SecretBox.ts"
import { CompiledSchemas } from "./CompiledSchemas.ts"
import { StoreClock } from "../store/StoreClock.ts"
import { readSchemas } from "./Tasks/rows.ts"

/** The request headers of a run. */
export interface RunHeaders {
  /** The caller's trace context (W3C). The run's trace links to it. */
  readonly traceparent?: string
  readonly "idempotency-key"?: string
}

export type { FinishedRun, LoggedRun } from "./Runs/rows.ts"

/** A hook that is called after each run is logged. It must not fail, and must return quickly: the response waits for it. */
export const RunFinished = Context.Reference<(run: FinishedRun) => Effect.Effect<void>>(
  "countersign/server/tasks/Runs/RunFinished",
  { defaultValue: () => () => Effect.void }
)

/** Runs tasks and logs the runs. */
export class Runs extends Context.Service<
  Runs,
  {
    /**
     * Answers an input with the live release, or logs the answer that the caller supplies. The run is logged before this returns; a run
     * that fails, or whose caller disconnects, is logged as failed. A repeated request with the same idempotency key returns the same
     * response.
     */
    readonly run: (
      task_id: TaskId,
      input: NewRun,
      headers: RunHeaders
    ) => Effect.Effect<
      TaskRun,
      NotFound | InvalidInput | ProviderFailed | IdempotencyKeyReused | IdempotencyKeyInUse,
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

      /**
       * Reads the plan of a run and validates the input, and the answer if the caller supplies it. From then on the task's schemas cannot
       * change.
       */
      const plan = Effect.fnUntraced(function* (
        org_id: OrgId,
        task_id: TaskId,
        session_id: SessionId | null,
        { answer, input }: NewRun
      ) {
        for (;;) {
          const task = yield* Effect.orDie(readRunPlan(sql, org_id, task_id, session_id))
          if (task === undefined) return yield* notFound("task")
          if (!task.session_exists) return yield* notFound("session", "#/session_id")
          const inputs = yield* schemaOf(org_id, task_id, task.input_schema_digest, "input_schema")
          const answers = yield* schemaOf(org_id, task_id, task.answer_schema_digest, "answer_schema")
          yield* check(inputs, input, "#/input")
          if (answer !== undefined) yield* check(answers, answer, "#/answer")
          if (task.schemas_locked) return { task, answers }
          // The first run locks the schemas. If they have just changed, the input is validated again with the new ones.
          if (yield* atomically(lockSchemas(sql, org_id, task_id, task, yield* clock.now))) {
            return { task, answers }
          }
        }
      })

      const callProvider = (
        org_id: OrgId,
        task_id: TaskId,
        input: JsonObject,
        { answers, task }: { readonly task: RunPlan; readonly answers: CompiledSchema },
        onCall: (call: ProviderCall) => void
      ) =>
        providers.answer({
          org_id,
          task_id,
          provider: task.provider,
          instructions: task.instructions,
          dataset_id: task.dataset_id,
          input,
          onCall,
          answer: {
            compiled: answers,
            schema: Effect.map(readSchemas(sql, org_id, task_id), ({ answer_schema }) => answer_schema)
          }
        })

      const idempotent = makeRunIdempotency(sql, box, clock)

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
                usage: calls.map(({ usage }) => usage).reduce(addUsage, noUsage),
                calls
              })
            ),
            Effect.flatMap(run.logProviderAnswer),
            Effect.catchTag("NoAnswer", (failure) =>
              Effect.andThen(
                run.logFailure(failure.detail, failure),
                Effect.fail(new ProviderFailed({ detail: failure.detail, trace_id: run.trace_id }))
              )
            )
          )
        })

      /** Performs and logs a run. The statement that logs it also stores the response, with the fragment of `saveResponse`. */
      const perform = Effect.fnUntraced(function* (
        principal: Principal,
        task_id: TaskId,
        request: NewRun,
        { traceparent }: RunHeaders,
        saveResponse?: SaveResponse
      ) {
        const { org_id } = principal
        const planned = yield* plan(org_id, task_id, request.session_id ?? null, request)
        const run = yield* beginRun(sql, clock, onFinished, {
          principal,
          task_id,
          request,
          traceparent,
          plan: planned.task,
          saveResponse
        })
        return request.answer === undefined
          ? yield* answerRun(run, (onCall) => callProvider(org_id, task_id, request.input, planned, onCall))
          : yield* run.logSuppliedAnswer(request.answer)
      })

      return Runs.of({
        run: Effect.fn("Runs.run")(function* (task_id, request, headers) {
          const principal = yield* Authorized("tasks.run")
          const key = headers["idempotency-key"]
          if (key === undefined) return yield* perform(principal, task_id, request, headers)
          return yield* idempotent({ principal, key, task_id, request }, (saveResponse) =>
            perform(principal, task_id, request, headers, saveResponse)
          )
        })
      })
    })
  )
}

const check = (schema: CompiledSchema, value: JsonObject, at: string): Effect.Effect<void, InvalidInput> => {
  const faults = schema.check(value, at)
  return faults.length > 0
    ? Effect.fail(
        new InvalidInput({
          detail:
            at === "#/input"
              ? "The input does not match the task's input schema."
              : "The answer does not match the task's answer schema.",
          errors: redactFaults(faults)
        })
      )
    : Effect.void
}
