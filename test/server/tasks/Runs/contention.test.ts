import { assert, layer } from "@effect/vitest"
import { Deferred, Effect, Fiber } from "effect"
import { SqlClient } from "effect/sql"
import { CurrentPrincipal } from "../../../../src/api/Authorization.ts"
import { ApiKeys } from "../../../../src/server/identity/ApiKeys.ts"
import { transactionCounts } from "../../../../src/server/store/Database/limitTransactions.ts"
import { atomic } from "../../../../src/server/store/transaction.ts"
import { acquireDatasetLock } from "../../../../src/server/tasks/Datasets/datasetLock.ts"
import { Countersign } from "../../../../src/testing/index.ts"
import { eventually, waitForBlockedStatements } from "../../../support/eventually.ts"
import { startScriptedServer } from "../../../support/scripted.ts"
import { send, service } from "../../../support/service.ts"
import { sortingExamples, sortingTask, createSortingTask, createTeamClients } from "../../../support/tasks.ts"

/** Three times the transactions that one organization can have open. */
const CROWD = 24

/** Acquires a lock in a transaction outside any organization, and returns the effect that releases it. */
const acquireUntilReleased = Effect.fnUntraced(function* <A, E>(acquire: Effect.Effect<A, E>) {
  const sql = yield* SqlClient.SqlClient
  const acquired = yield* Deferred.make<void>()
  const release = yield* Deferred.make<void>()
  const owner = yield* Effect.forkChild(
    sql.withTransaction(
      Effect.andThen(acquire, Effect.andThen(Deferred.succeed(acquired, undefined), Deferred.await(release)))
    )
  )
  yield* Deferred.await(acquired)
  return Effect.andThen(Deferred.succeed(release, undefined), Fiber.join(owner))
})

layer(service({ environment: { COUNTERSIGN_PROVIDER_ALLOW: "127.0.0.0/8" } }), { excludeTestServices: true })(
  "Runs and Datasets under transaction contention",
  (it) => {
    it.effect(
      "a run with an idempotency key is logged while all of the organization's transactions wait",
      () =>
        Effect.gen(function* () {
          const sql = yield* SqlClient.SqlClient
          const { admin } = yield* createTeamClients("contention")
          const model = yield* startScriptedServer([
            { status: 200, body: { choices: [{ message: { content: '{"category":"other"}' } }] } }
          ])
          const provider = { kind: "openai", base_url: model.url, model: "small" } as const
          const { id: task_id } = yield* admin.tasks.create({ payload: { ...sortingTask, provider } })
          // The first run locks the schemas, which needs a transaction.
          const answer = { category: "other" }
          yield* admin.tasks.run({ params: { id: task_id }, payload: { input: { text: "a" }, answer } })
          const key = yield* (yield* Countersign).key({ preset: "runtime" }, "contention")
          const principal = yield* (yield* ApiKeys).verify(key)
          const crowd = yield* Effect.forkChild(
            Effect.replicateEffect(Effect.exit(atomic(sql)(Effect.never)), CROWD, {
              concurrency: "unbounded"
            }).pipe(Effect.provideService(CurrentPrincipal, principal))
          )
          yield* eventually(
            Effect.sync(() => transactionCounts(sql)),
            ({ open, waiting }) => open + waiting >= CROWD
          )
          const run = send(`/v1/tasks/${task_id}/run`, {
            key,
            method: "POST",
            headers: { "idempotency-key": "order-4711" },
            body: JSON.stringify({ input: { text: "a" } })
          })
          const answered = yield* run
          assert.strictEqual(answered.status, 200)
          const trace_id = String(answered.body["trace_id"])
          assert.lengthOf(yield* sql`SELECT 1 FROM runs WHERE trace_id = ${trace_id}`, 1)
          assert.deepStrictEqual((yield* run).body, answered.body)
          assert.lengthOf(model.seen, 1)
          yield* Fiber.interrupt(crowd)
        }).pipe(Effect.scoped)
    )

    it.effect("of concurrent changes of one dataset only one occupies a connection", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const { admin } = yield* createTeamClients("dataset")
        const { dataset, task } = yield* createSortingTask(admin, ["a", "other"])
        const [row] = yield* sql<{ readonly org_id: Parameters<typeof acquireDatasetLock>[1] }>`
          SELECT org_id
          FROM tasks
          WHERE task_id = ${task.id}
        `
        const release = yield* acquireUntilReleased(acquireDatasetLock(sql, row!.org_id, task.id))
        const [example] = sortingExamples(["b", "billing"])
        // Without idempotency keys, which have a semaphore of their own.
        const key = yield* (yield* Countersign).key({}, "dataset")
        const post = (path: string, body: unknown) =>
          send(path, { key, method: "POST", body: JSON.stringify(body) })
        const version = { base_dataset_id: dataset.id, examples: [example] }
        const change = Effect.replicateEffect(post(`/v1/tasks/${task.id}/datasets`, version), CROWD / 2, {
          concurrency: "unbounded"
        })
        const request = { base_dataset_id: dataset.id, expected_feedback_revision: "none" }
        const promotion = Effect.replicateEffect(
          post(`/v1/tasks/${task.id}/feedback/promote`, request),
          CROWD / 2,
          {
            concurrency: "unbounded"
          }
        )
        const crowd = yield* Effect.forkChild(Effect.all([change, promotion], { concurrency: 2 }))
        yield* waitForBlockedStatements(1)
        assert.strictEqual((yield* post("/v1/tasks", sortingTask)).status, 201)
        const waiting = yield* sql`
          SELECT 1
          FROM pg_locks
          WHERE database = (SELECT oid FROM pg_database WHERE datname = current_database())
            AND locktype = 'advisory'
            AND NOT granted
        `
        assert.lengthOf(waiting, 1)
        yield* release
        const [changes] = yield* Fiber.join(crowd)
        assert.lengthOf(
          changes.filter(({ status }) => status === 201),
          1
        )
      })
    )
  }
)
