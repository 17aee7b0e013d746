import { assert, layer } from "@effect/vitest"
import { type Cause, Effect, Exit, Fiber, Queue, Stream } from "effect"
import { SqlClient } from "effect/sql"
import { Datasets } from "../../../../src/server/tasks/Datasets.ts"
import { Organizations } from "../../../../src/server/identity/Organizations.ts"
import { Countersign } from "../../../../src/testing/index.ts"
import { eventually, waitForBlockedStatements } from "../../../support/eventually.ts"
import { send, service } from "../../../support/service.ts"
import { sortingExamples, sortingTask, createTeamClients } from "../../../support/tasks.ts"

/** More than the pool's connections, and more than the permits of any semaphore. */
const MANY = 13

/** Creates a task and starts an import whose lines the test supplies one by one. */
const startImport = Effect.fnUntraced(function* (organization: string) {
  const clients = yield* createTeamClients(organization)
  const task = yield* clients.admin.tasks.create({ payload: sortingTask })
  const org_id = yield* (yield* Organizations).findByName(organization)
  const lines = yield* Queue.make<string, Cause.Done>()
  let read = 0
  const datasets = yield* Datasets
  const importing = yield* Effect.forkChild(
    datasets.importLines(org_id, task.id, Stream.fromQueue(lines), (count) =>
      Effect.sync(() => {
        read = count
      })
    )
  )
  const sendLine = Effect.fnUntraced(function* (text: string) {
    const before = read
    yield* Queue.offer(lines, JSON.stringify({ input: { text }, answer: { category: "other" } }))
    yield* eventually(
      Effect.sync(() => read),
      (count) => count > before
    )
  })
  yield* sendLine("first")
  return {
    ...clients,
    params: { id: task.id },
    sendLine,
    finish: Effect.andThen(Queue.end(lines), Fiber.join(importing))
  }
})

layer(service(), { excludeTestServices: true })("importLines", (it) => {
  it.effect("runs, the task's first run included, and updates of the task proceed during an import", () =>
    Effect.gen(function* () {
      const { admin, finish, params, runtime, sendLine } = yield* startImport("runs on")
      const payload = { input: { text: "a" }, answer: { category: "other" } } as const
      yield* Effect.replicateEffect(runtime.tasks.run({ params, payload }), 4, { concurrency: 4 })
      const renamed = yield* admin.tasks.update({ params, payload: { name: "renamed" } })
      assert.strictEqual(renamed.name, "renamed")
      yield* sendLine("second")
      const { dataset } = yield* finish
      assert.strictEqual(dataset.example_count, 2)
      const task = yield* admin.tasks.get({ params })
      assert.deepInclude(task, { name: "renamed", dataset_id: dataset.id })
    })
  )

  it.effect("the task's schemas cannot change during an import", () =>
    Effect.gen(function* () {
      const { admin, finish, params } = yield* startImport("schemas")
      const answer_schema = { ...sortingTask.answer_schema, additionalProperties: true }
      const refused = yield* Effect.flip(admin.tasks.update({ params, payload: { answer_schema } }))
      assert.strictEqual(refused._tag, "TASK_IN_USE")
      yield* finish
    })
  )

  it.effect("an import waits for another one and adds its examples to that version", () =>
    Effect.gen(function* () {
      const { finish, params } = yield* startImport("queue")
      const datasets = yield* Datasets
      const org_id = yield* (yield* Organizations).findByName("queue")
      const line = JSON.stringify({ input: { text: "second" }, answer: { category: "other" } })
      const second = yield* Effect.forkChild(
        datasets.importLines(org_id, params.id, Stream.make(line), () => Effect.void)
      )
      yield* waitForBlockedStatements(1)
      yield* finish
      const { dataset } = yield* Fiber.join(second)
      assert.deepInclude(dataset, { version: 2, example_count: 2 })
    })
  )

  it.effect(
    "during an import other changes of the dataset get 409 DATASET_BUSY, and other organizations are not blocked",
    () =>
      Effect.gen(function* () {
        const { admin, finish, params } = yield* startImport("crowd")
        const countersign = yield* Countersign
        const key = yield* countersign.key({}, "crowd")
        const other = yield* countersign.key({}, "beside the crowd")
        const body = JSON.stringify({ examples: sortingExamples(["a", "other"]) })
        const create = (index: number) =>
          send(`/v1/tasks/${params.id}/datasets`, {
            method: "POST",
            key,
            body,
            headers: index % 2 === 0 ? { "idempotency-key": String(index) } : {}
          })
        const crowd = yield* Effect.forkChild(
          Effect.forEach(Array.from({ length: MANY }).keys(), create, { concurrency: "unbounded" })
        )
        const sql = yield* SqlClient.SqlClient
        yield* waitForBlockedStatements(1)
        const waiting = yield* sql`
        SELECT pid
        FROM pg_stat_activity
        WHERE datname = current_database()
          AND wait_event_type = 'Lock'
      `
        // One request without an idempotency key, and four with one. The others wait for a semaphore, without a connection.
        assert.isAtMost(waiting.length, 5)
        const make = (headers: Record<string, string>) =>
          send("/v1/tasks", { method: "POST", key: other, body: JSON.stringify(sortingTask), headers })
        const made = yield* Effect.all([make({}), make({ "idempotency-key": "one" })], { concurrency: 2 })
        assert.deepStrictEqual(
          made.map(({ status }) => status),
          [201, 201]
        )
        for (const response of yield* Fiber.join(crowd)) {
          assert.strictEqual(response.status, 409)
          assert.strictEqual(response.body["code"], "DATASET_BUSY")
          assert.strictEqual(response.headers.get("retry-after"), "10")
          assert.strictEqual(response.body["retry_after_seconds"], 10)
        }
        assert.isTrue(Exit.isSuccess(yield* Effect.exit(finish)))
        // The refusal is not stored under the idempotency key: the same request is processed again.
        const { dataset_id } = yield* admin.tasks.get({ params })
        const retried = yield* send(`/v1/tasks/${params.id}/datasets`, {
          method: "POST",
          key,
          body: JSON.stringify({ base_dataset_id: dataset_id, examples: sortingExamples(["a", "other"]) }),
          headers: { "idempotency-key": "0" }
        })
        assert.strictEqual(retried.status, 201)
      })
  )
})
