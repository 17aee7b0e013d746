import { assert, layer } from "@effect/vitest"
import { type Cause, Effect, Exit, Fiber, Queue, Stream } from "effect"
import { SqlClient } from "effect/sql"
import { Datasets } from "../../../../src/server/tasks/Datasets.ts"
import { Organizations } from "../../../../src/server/identity/Organizations.ts"
import { Countersign } from "../../../../src/testing/index.ts"
import { eventually, waitForBlockedStatements } from "../../../support/eventually.ts"
import { send, service } from "../../../support/service.ts"
import { sortingExamples, sortingTask, createTeamClients } from "../../../support/tasks.ts"

/** More than the store's connections, and more than turns of any kind. */
const MANY = 13

/** A new task of an organization, with an import under way whose lines come when they are given. */
const importing = Effect.fnUntraced(function* (organization: string) {
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
  const give = Effect.fnUntraced(function* (text: string) {
    const before = read
    yield* Queue.offer(lines, JSON.stringify({ input: { text }, answer: { category: "other" } }))
    yield* eventually(
      Effect.sync(() => read),
      (count) => count > before
    )
  })
  yield* give("first")
  return {
    ...clients,
    params: { task_id: task.id },
    give,
    done: Effect.andThen(Queue.end(lines), Fiber.join(importing))
  }
})

layer(service(), { excludeTestServices: true })("an import that waits for its lines", (it) => {
  it.effect("has nobody wait for the task: runs, the first among them, and changes go on", () =>
    Effect.gen(function* () {
      const { admin, done, give, params, runtime } = yield* importing("runs on")
      const payload = { input: { text: "a" }, answer: { category: "other" } } as const
      yield* Effect.replicateEffect(runtime.tasks.run({ params, payload }), 4, { concurrency: 4 })
      const renamed = yield* admin.tasks.update({ params, payload: { name: "renamed" } })
      assert.strictEqual(renamed.name, "renamed")
      yield* give("second")
      const { dataset } = yield* done
      assert.strictEqual(dataset.example_count, 2)
      const task = yield* admin.tasks.get({ params })
      assert.deepInclude(task, { name: "renamed", dataset_id: dataset.id })
    })
  )

  it.effect("keeps the shapes that its examples were judged by", () =>
    Effect.gen(function* () {
      const { admin, done, params } = yield* importing("shapes")
      const answer_schema = { ...sortingTask.answer_schema, additionalProperties: true }
      const refused = yield* Effect.flip(admin.tasks.update({ params, payload: { answer_schema } }))
      assert.strictEqual(refused._tag, "TASK_IN_USE")
      yield* done
    })
  )

  it.effect("holds up other versions of that dataset for a moment, and no other organization", () =>
    Effect.gen(function* () {
      const { done, params } = yield* importing("crowd")
      const countersign = yield* Countersign
      const key = yield* countersign.key({}, "crowd")
      const other = yield* countersign.key({}, "beside the crowd")
      const body = JSON.stringify({ examples: sortingExamples(["a", "other"]) })
      const create = (index: number) =>
        send(`/v1/tasks/${params.task_id}/datasets`, {
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
      // One of those without a key, and four with: the others of them wait for their turn, without a connection.
      assert.isAtMost(waiting.length, 5)
      const make = (headers: Record<string, string>) =>
        send("/v1/tasks", { method: "POST", key: other, body: JSON.stringify(sortingTask), headers })
      const made = yield* Effect.all([make({}), make({ "idempotency-key": "one" })], { concurrency: 2 })
      assert.deepStrictEqual(
        made.map(({ status }) => status),
        [201, 201]
      )
      for (const { headers, status } of yield* Fiber.join(crowd)) {
        assert.strictEqual(status, 503)
        assert.isNotNull(headers.get("retry-after"))
      }
      assert.isTrue(Exit.isSuccess(yield* Effect.exit(done)))
    })
  )
})
