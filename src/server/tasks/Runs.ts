import { Context, Effect, Layer, Option } from "effect"
import { SqlClient } from "effect/sql"
import { Authorized } from "../../api/Authorization.ts"
import {
  type IdempotencyKeyInUse,
  type IdempotencyKeyReused,
  InvalidInput,
  NotFound,
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
import { atomic } from "../store/Database/transaction.ts"
import { type NoAnswer, type ProviderAnswer, type ProviderCall, Providers } from "./Providers.ts"
import { beginRun, type RunHandle } from "./Runs/runLog.ts"
import { type SaveAnswer, makeRunIdempotency } from "./Runs/runIdempotency.ts"
import { type FinishedRun, lockSchemas, type RunPlan, readRunPlan } from "./Runs/rows.ts"
import { SecretBox } from "../secrets/SecretBox.ts"
import { CompiledSchemas } from "./CompiledSchemas.ts"
import { StoreClock } from "../store/StoreClock.ts"
import { noTask, readSchemas } from "./Tasks/rows.ts"

/** The headers of a run. */
export interface RunHeaders {
  /** The caller's place in a trace of its own, which the run links to. */
  readonly traceparent?: string
  readonly "idempotency-key"?: string
}

export type { FinishedRun, LoggedRun } from "./Runs/rows.ts"

/** What is told of every run once it is logged. It must not fail, and hold no run up. */
export const RunFinished = Context.Reference<(run: FinishedRun) => Effect.Effect<void>>(
  "countersign/server/tasks/Runs/RunFinished",
  { defaultValue: () => () => Effect.void }
)

/** The log of tasks' runs, and the running. */
export class Runs extends Context.Service<
  Runs,
  {
    /**
     * Has the live release answer, or logs the answer that is given. The run is logged before this answers; one that failed, or whose
     * caller went away meanwhile, is logged as failed. With an idempotency key the same run again has the same answer.
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
      const shapes = yield* CompiledSchemas
      const finished = yield* RunFinished

      const shapeOf = (
        org_id: OrgId,
        task_id: TaskId,
        digest: string,
        which: "input_schema" | "answer_schema"
      ) =>
        shapes.get(
          digest,
          Effect.map(readSchemas(sql, org_id, task_id), (schemas) => schemas[which])
        )

      /** The plan of a run whose input, and answer if it has one, fit the shapes, which are fixed from here on. */
      const planned = Effect.fnUntraced(function* (
        org_id: OrgId,
        task_id: TaskId,
        session_id: SessionId | null,
        { answer, input }: NewRun
      ) {
        for (;;) {
          const found = yield* Effect.orDie(readRunPlan(sql, org_id, task_id, session_id))
          if (Option.isNone(found)) return yield* noTask
          const plan = found.value
          if (!plan.session_known) {
            return yield* new NotFound({
              detail: "There is no such session in this organization",
              errors: [{ pointer: "#/session_id", detail: "There is no such session" }]
            })
          }
          const inputs = yield* shapeOf(org_id, task_id, plan.input_schema_digest, "input_schema")
          const answers = yield* shapeOf(org_id, task_id, plan.answer_schema_digest, "answer_schema")
          yield* checked(inputs, input, "#/input")
          if (answer !== undefined) yield* checked(answers, answer, "#/answer")
          if (plan.fixed) return { plan, answers }
          // The first run fixes the shapes. Where they changed in this very moment, it is judged by the new ones.
          if (yield* atomically(lockSchemas(sql, org_id, task_id, plan, yield* clock.now))) {
            return { plan, answers }
          }
        }
      })

      const answerOf = (
        org_id: OrgId,
        task_id: TaskId,
        input: JsonObject,
        { answers, plan }: { readonly plan: RunPlan; readonly answers: CompiledSchema },
        noted: (call: ProviderCall) => void
      ) =>
        providers.answer({
          org_id,
          task_id,
          provider: plan.provider,
          instructions: plan.instructions,
          dataset_id: plan.dataset_id,
          input,
          onCall: noted,
          answer: {
            shape: answers,
            schema: Effect.map(readSchemas(sql, org_id, task_id), ({ answer_schema }) => answer_schema)
          }
        })

      const oncePerKey = makeRunIdempotency(sql, box, clock)

      /** Has the provider answer a run that has begun, whose end is logged whatever it is. */
      const ask = (
        run: RunHandle,
        answer: (noted: (call: ProviderCall) => void) => Effect.Effect<ProviderAnswer, NoAnswer>
      ) =>
        Effect.uninterruptibleMask((restore) => {
          const calls: Array<ProviderCall> = []
          return restore(answer((call) => calls.push(call))).pipe(
            Effect.onInterrupt(() =>
              run.failed("The caller went away before the answer came", {
                // What was answered until then is to be paid for.
                usage: calls.map(({ usage }) => usage).reduce(addUsage, noUsage),
                calls
              })
            ),
            Effect.flatMap(run.answered),
            Effect.catchTag("NoAnswer", (none) =>
              Effect.andThen(
                run.failed(none.detail, none),
                Effect.fail(new ProviderFailed({ detail: none.detail, trace_id: run.trace_id }))
              )
            )
          )
        })

      /** A run, logged together with what `keep` makes of its answer, where it is given. */
      const perform = Effect.fnUntraced(function* (
        principal: Principal,
        task_id: TaskId,
        given: NewRun,
        { traceparent }: RunHeaders,
        keep?: SaveAnswer
      ) {
        const { org_id } = principal
        const ready = yield* planned(org_id, task_id, given.session_id ?? null, given)
        const { plan } = ready
        const run = yield* beginRun(sql, clock, finished, {
          principal,
          task_id,
          given,
          traceparent,
          plan,
          keep
        })
        return given.answer === undefined
          ? yield* ask(run, (noted) => answerOf(org_id, task_id, given.input, ready, noted))
          : yield* run.given(given.answer)
      })

      return Runs.of({
        run: Effect.fn("Runs.run")(function* (task_id, given, headers) {
          const principal = yield* Authorized("tasks.run")
          const key = headers["idempotency-key"]
          if (key === undefined) return yield* perform(principal, task_id, given, headers)
          return yield* oncePerKey({ principal, key, task_id, input: given }, (keep) =>
            perform(principal, task_id, given, headers, keep)
          )
        })
      })
    })
  )
}

const checked = (shape: CompiledSchema, value: JsonObject, at: string): Effect.Effect<void, InvalidInput> => {
  const faults = shape.check(value, at)
  return faults.length > 0
    ? Effect.fail(
        new InvalidInput({
          detail:
            at === "#/input"
              ? "The input does not fit the task's shape"
              : "The answer does not fit the task's shape",
          errors: redactFaults(faults)
        })
      )
    : Effect.void
}
