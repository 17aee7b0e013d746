import { Clock, Context, Effect, Layer, Option } from "effect"
import { SqlClient } from "effect/sql"
import { Authorized } from "../api/Authorization.ts"
import {
  type IdempotencyKeyInUse,
  type IdempotencyKeyReused,
  InvalidInput,
  NotFound,
  ProviderFailed
} from "../api/Problems.ts"
import type { NewRun } from "../api/Tasks.ts"
import type { JsonObject } from "../domain/Dataset.ts"
import { generateTraceId, type OrgId, RunId, type SessionId, type TaskId } from "../domain/Ids.ts"
import type { Principal } from "../domain/Principal.ts"
import { addUsage, noUsage } from "../domain/Provider.ts"
import { type TaskRun, traceparentOf } from "../domain/Run.ts"
import { withoutSecrets } from "../domain/Redaction/faults.ts"
import type { Shape } from "../domain/Shape.ts"
import { atomic } from "./Database/transaction.ts"
import { type ProviderCall, Providers } from "./Providers.ts"
import { runOnce } from "./Runs/once.ts"
import { type FinishedRun, fixShapes, insertRun, type Plan, planOf } from "./Runs/rows.ts"
import { SecretBox } from "./SecretBox.ts"
import { Shapes } from "./Shapes.ts"
import { StoreClock } from "./StoreClock.ts"
import { noTask, schemasOf } from "./Tasks/rows.ts"

/** The headers of a run. */
export interface RunHeaders {
  /** The caller's place in a trace of its own, which the run links to. */
  readonly traceparent?: string
  readonly "idempotency-key"?: string
}

export type { FinishedRun, LoggedRun } from "./Runs/rows.ts"

/** What is told of every run once it is logged. It must not fail, and hold no run up. */
export const RunFinished = Context.Reference<(run: FinishedRun) => Effect.Effect<void>>(
  "countersign/server/RunFinished",
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
>()("countersign/server/Runs") {
  static readonly layer = Layer.effect(
    Runs,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const atomically = atomic(sql)
      const box = yield* SecretBox
      const clock = yield* StoreClock
      const providers = yield* Providers
      const shapes = yield* Shapes
      const finished = yield* RunFinished

      const shapeOf = (
        org_id: OrgId,
        task_id: TaskId,
        digest: string,
        which: "input_schema" | "answer_schema"
      ) =>
        shapes.stored(
          digest,
          Effect.map(schemasOf(sql, org_id, task_id), (schemas) => schemas[which])
        )

      /** The plan of a run whose input, and answer if it has one, fit the shapes, which are fixed from here on. */
      const planned = Effect.fnUntraced(function* (
        org_id: OrgId,
        task_id: TaskId,
        session_id: SessionId | null,
        { answer, input }: NewRun
      ) {
        for (;;) {
          const found = yield* Effect.orDie(planOf(sql, org_id, task_id, session_id))
          if (Option.isNone(found)) return yield* noTask
          const plan = found.value
          if (!plan.session_known) {
            return yield* new NotFound({
              detail: "There is no such session in this organization",
              errors: [{ pointer: "#/session_id", detail: "There is no such session" }]
            })
          }
          const inputs = yield* shapeOf(org_id, task_id, plan.input_shape, "input_schema")
          const answers = yield* shapeOf(org_id, task_id, plan.answer_shape, "answer_schema")
          yield* checked(inputs, input, "#/input")
          if (answer !== undefined) yield* checked(answers, answer, "#/answer")
          if (plan.fixed) return { plan, answers }
          // The first run fixes the shapes. Where they changed in this very moment, it is judged by the new ones.
          if (yield* atomically(fixShapes(sql, org_id, task_id, plan, yield* clock.now))) {
            return { plan, answers }
          }
        }
      })

      const answerOf = (
        org_id: OrgId,
        task_id: TaskId,
        input: JsonObject,
        { answers, plan }: { readonly plan: Plan; readonly answers: Shape },
        noted: (call: ProviderCall) => void
      ) =>
        providers.answer({
          org_id,
          task_id,
          provider: plan.provider,
          instructions: plan.instructions,
          dataset_id: plan.dataset_id,
          input,
          noted,
          answer: {
            shape: answers,
            schema: Effect.map(schemasOf(sql, org_id, task_id), ({ answer_schema }) => answer_schema)
          }
        })

      /** Logs a run, together with what is to be kept of it where anything is. */
      const log = (run: FinishedRun, kept: Effect.Effect<void> | undefined) =>
        Effect.andThen(
          kept === undefined
            ? Effect.orDie(insertRun(sql, run))
            : atomically(Effect.andThen(insertRun(sql, run), kept)),
          Effect.suspend(() => finished(run))
        )

      const once = runOnce(sql, box, clock)

      /** A run, logged in one transaction with what `keep` does with its answer, where it is given. */
      const perform = Effect.fnUntraced(function* (
        { actor, org_id }: Principal,
        task_id: TaskId,
        given: NewRun,
        { traceparent }: RunHeaders,
        keep?: (run: TaskRun) => Effect.Effect<void>
      ) {
        const session_id = given.session_id ?? null
        const ready = yield* planned(org_id, task_id, session_id, given)
        const began = yield* Clock.currentTimeMillis
        const begun = {
          org_id,
          trace_id: yield* generateTraceId,
          run_id: yield* RunId.generate,
          task_id,
          task_name: ready.plan.task_name,
          release_id: ready.plan.release_id,
          dataset_id: ready.plan.dataset_id,
          session_id,
          input: given.input,
          metadata: given.metadata ?? {},
          provider: ready.plan.provider,
          caller_traceparent: traceparentOf(traceparent),
          created_at: yield* clock.now,
          created_by: actor
        }
        const { trace_id, created_at, dataset_id, release_id } = begun
        const shown = (answer: JsonObject, usage: FinishedRun["usage"]): TaskRun => ({
          trace_id,
          task_id,
          release_id,
          dataset_id,
          answer,
          usage,
          created_at
        })
        const finish = (
          end: Pick<FinishedRun, "source" | "answer" | "failure" | "usage" | "calls">
        ): Effect.Effect<void> =>
          Effect.flatMap(Clock.currentTimeMillis, (now) =>
            log(
              { ...begun, ...end, duration_ms: now - began },
              end.answer === null ? undefined : keep?.(shown(end.answer, end.usage))
            )
          )
        if (given.answer !== undefined) {
          const { answer } = given
          yield* finish({ source: "logged", answer, failure: null, usage: noUsage, calls: [] })
          return shown(answer, noUsage)
        }
        const calls: Array<ProviderCall> = []
        const asked = answerOf(org_id, task_id, given.input, ready, (call) => calls.push(call))
        return yield* Effect.uninterruptibleMask((restore) =>
          restore(asked).pipe(
            Effect.onInterrupt(() =>
              finish({
                source: "provider",
                answer: null,
                failure: "The caller went away before the answer came",
                // What was answered until then is to be paid for.
                usage: calls.map(({ usage }) => usage).reduce(addUsage, noUsage),
                calls
              })
            ),
            Effect.tap(({ answer, calls, usage }) =>
              finish({ source: "provider", answer, failure: null, usage, calls })
            ),
            Effect.map(({ answer, usage }) => shown(answer, usage)),
            Effect.catchTag("NoAnswer", ({ calls, detail, usage }) =>
              Effect.andThen(
                finish({ source: "provider", answer: null, failure: detail, usage, calls }),
                Effect.fail(new ProviderFailed({ detail, trace_id }))
              )
            )
          )
        )
      })

      return Runs.of({
        run: Effect.fn("Runs.run")(function* (task_id, given, headers) {
          const principal = yield* Authorized("tasks.run")
          const key = headers["idempotency-key"]
          if (key === undefined) return yield* perform(principal, task_id, given, headers)
          return yield* once({ principal, key, task_id, input: given }, (keep) =>
            perform(principal, task_id, given, headers, keep)
          )
        })
      })
    })
  )
}

const checked = (shape: Shape, value: JsonObject, at: string): Effect.Effect<void, InvalidInput> => {
  const faults = shape.check(value, at)
  return faults.length > 0
    ? Effect.fail(
        new InvalidInput({
          detail:
            at === "#/input"
              ? "The input does not fit the task's shape"
              : "The answer does not fit the task's shape",
          errors: withoutSecrets(faults)
        })
      )
    : Effect.void
}
