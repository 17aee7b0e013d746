import { assert, layer } from "@effect/vitest"
import { Deferred, Effect, Fiber } from "effect"
import { SqlClient } from "effect/sql"
import { CompiledSchemas } from "../../../../src/server/tasks/CompiledSchemas.ts"
import { Countersign } from "../../../../src/testing/index.ts"
import { waitForBlockedStatements } from "../../../support/eventually.ts"
import { createDesk, tagOf } from "../../../support/feedback.ts"
import { startScriptedServer } from "../../../support/scripted.ts"
import { send, service } from "../../../support/service.ts"
import { sortingTask } from "../../../support/tasks.ts"

/** Fills the cache of compiled schemas with others, of 4 MiB in all. */
const evictSchemas = Effect.gen(function* () {
  const schemas = yield* CompiledSchemas
  for (let number = 0; number < 80; number++) {
    yield* schemas.compile({ type: "object", description: `${number} ${"x".repeat(60_000)}` })
  }
})

/** Runs `during` while no other transaction can use the table, from when a statement waits for it. */
const whileBlocked = <A, E, R, A2, E2, R2>(
  table: string,
  call: Effect.Effect<A, E, R>,
  during: Effect.Effect<A2, E2, R2>
) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const locked = yield* Deferred.make<void>()
    const owner = yield* Effect.forkChild(
      sql.withTransaction(
        Effect.gen(function* () {
          yield* sql`LOCK TABLE ${sql(table)} IN ACCESS EXCLUSIVE MODE`
          yield* Deferred.succeed(locked, undefined)
          yield* waitForBlockedStatements(1)
          yield* during
        })
      )
    )
    yield* Deferred.await(locked)
    const result = yield* call
    yield* Fiber.join(owner)
    return result
  })

layer(service({ environment: { COUNTERSIGN_PROVIDER_ALLOW: "127.0.0.0/8" } }), { excludeTestServices: true })(
  "A task that is deleted during a request",
  (it) => {
    it.effect("a logged run gets 404, also if the task's schemas are no longer cached", () =>
      Effect.gen(function* () {
        const { admin, params, run } = yield* createDesk("deleted before a run")
        yield* run("the first run caches its plan")
        yield* admin.tasks.remove({ params })
        yield* evictSchemas
        assert.strictEqual(yield* tagOf(run("late")), "NOT_FOUND")
        const key = yield* (yield* Countersign).key({}, "deleted before a run")
        const { status } = yield* send(`/v1/tasks/${params.id}/run`, {
          method: "POST",
          key,
          headers: { "idempotency-key": "late" },
          body: JSON.stringify({ input: { text: "late" }, answer: { category: "other" } })
        })
        assert.strictEqual(status, 404)
      })
    )

    it.effect("a correction gets 404 if the task's answer schema is no longer cached", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const { integration, run, task } = yield* createDesk("deleted before feedback")
        const inference_log_id = yield* run("corrected late")
        yield* evictSchemas
        const tag = yield* whileBlocked(
          "feedback_labels",
          tagOf(
            integration.feedback.create({
              payload: {
                inference_log_id,
                score: -1,
                score_label: "wrong",
                correction: { category: "billing" }
              }
            })
          ),
          sql`DELETE FROM tasks WHERE task_id = ${task.id}`
        )
        assert.strictEqual(tag, "NOT_FOUND")
      })
    )

    it.effect("a comparison of a split gets 404 if the task is deleted while its examples are counted", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const { admin, params, task } = yield* createDesk("deleted before a comparison")
        const tag = yield* whileBlocked(
          "datasets",
          tagOf(admin.comparisons.create({ params, payload: { hold_out: { kind: "split" } } })),
          sql`DELETE FROM tasks WHERE task_id = ${task.id}`
        )
        assert.strictEqual(tag, "NOT_FOUND")
      })
    )

    it.effect("a model's answer is still returned if the task was deleted after the run began", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const { admin } = yield* createDesk("deleted during a run")
        const model = yield* startScriptedServer([
          { status: 200, body: { choices: [{ message: { content: '{"category":"billing"}' } }] } }
        ])
        const provider = { kind: "openai", base_url: model.url, model: "small" } as const
        const { id: task_id } = yield* admin.tasks.create({ payload: { ...sortingTask, provider } })
        const run = admin.tasks.run({ params: { id: task_id }, payload: { input: { text: "a" } } })
        yield* run
        const { answer } = yield* whileBlocked(
          "provider_keys",
          run,
          sql`DELETE FROM tasks WHERE task_id = ${task_id}`
        )
        assert.deepStrictEqual(answer, { category: "billing" })
      })
    )
  }
)
