import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { Authorized } from "../../../../src/api/Authorization.ts"
import { SessionId, type TaskId } from "../../../../src/domain/Ids.ts"
import { ApiKeys } from "../../../../src/server/identity/ApiKeys.ts"
import { Runs } from "../../../../src/server/tasks/Runs.ts"
import { Countersign } from "../../../../src/testing/index.ts"
import { send, service } from "../../../support/service.ts"
import { createSortingTask, createTeamClients, sortingTask } from "../../../support/tasks.ts"

const input = { text: "a" }
const answer = { category: "other" }

/** Makes a new release live by SQL alone, as another replica does: nothing in this process is notified. */
const releaseElsewhere = Effect.fnUntraced(function* (task_id: TaskId, release_id: string) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    INSERT INTO releases (org_id, release_id, task_id, number, instructions, provider, dataset_id, created_at, created_by_id, created_by_name)
    SELECT org_id, ${release_id}, task_id, 2, instructions, provider, dataset_id, created_at, created_by_id, created_by_name
    FROM tasks
    WHERE task_id = ${task_id}
  `
  yield* sql`
    UPDATE tasks
    SET live_release_id = ${release_id}
    WHERE task_id = ${task_id}
  `
})

layer(service(), { excludeTestServices: true })("Runs › logged answers", (it) => {
  it.effect("concurrent runs are logged by shared statements, each with its own content", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { admin } = yield* createTeamClients("shared")
      const { id: task_id } = yield* admin.tasks.create({ payload: sortingTask })
      const key = yield* (yield* Countersign).key({ preset: "runtime" }, "shared")
      const principal = yield* (yield* ApiKeys).verify(key)
      const service = yield* Runs
      const log = (number: number) =>
        service
          .run(task_id, { input: { text: `${number}` }, answer, metadata: { number } }, {})
          .pipe(Effect.provideService(Authorized("tasks.run"), principal))
      yield* log(0)
      const runs = yield* Effect.forEach(
        Array.from({ length: 40 }, (_, index) => index + 1),
        (number) => Effect.map(log(number), ({ trace_id }) => ({ number, trace_id })),
        { concurrency: "unbounded" }
      )
      const rows = yield* sql<{
        readonly trace_id: string
        readonly number: number
        readonly commit: string
      }>`
        SELECT trace_id, (metadata ->> 'number')::int AS number, xmin::text AS commit
        FROM runs
        WHERE task_id = ${task_id}
          AND input ->> 'text' = metadata ->> 'number'
          AND status = 'succeeded'
          AND source = 'logged'
          AND answer ->> 'category' = 'other'
      `
      assert.lengthOf(rows, 41)
      const logged = new Map(rows.map(({ number, trace_id }) => [number, trace_id]))
      for (const { number, trace_id } of runs) assert.strictEqual(logged.get(number), trace_id)
      assert.isAtMost(new Set(rows.map(({ commit }) => commit)).size, 4)
    })
  )

  it.effect("a release, dataset version or name that another replica changed is used by the next run", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { admin, runtime } = yield* createTeamClients("elsewhere")
      const { dataset, params } = yield* createSortingTask(admin, ["a", "other"])
      const { id: task_id } = params
      const log = runtime.tasks.run({ params, payload: { input, answer } })
      const first = yield* log
      assert.strictEqual(first.dataset_id, dataset.id)
      const release_id = `rel_${"4".repeat(32)}`
      yield* releaseElsewhere(task_id, release_id)
      const second = yield* log
      assert.strictEqual(second.release_id, release_id)
      assert.strictEqual(second.dataset_id, dataset.id)
      yield* sql`UPDATE releases SET dataset_id = NULL WHERE release_id = ${release_id}`
      assert.isNull((yield* log).dataset_id)
      yield* sql`UPDATE tasks SET name = 'renamed' WHERE task_id = ${task_id}`
      yield* log
      const rows = yield* sql`
        SELECT release_id
        FROM runs
        WHERE task_id = ${task_id}
        ORDER BY run_id
      `
      assert.deepStrictEqual(
        rows.map((row) => row["release_id"]),
        [first.release_id, release_id, release_id, release_id]
      )
    })
  )

  it.effect("a run with an idempotency key is logged once, by the current release", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { admin } = yield* createTeamClients("keyed")
      const { id: task_id } = yield* admin.tasks.create({ payload: sortingTask })
      const key = yield* (yield* Countersign).key({ preset: "runtime" }, "keyed")
      const log = (idempotencyKey: string) =>
        send(`/v1/tasks/${task_id}/run`, {
          key,
          method: "POST",
          headers: { "idempotency-key": idempotencyKey },
          body: JSON.stringify({ input, answer })
        })
      yield* log("one")
      const release_id = `rel_${"5".repeat(32)}`
      yield* releaseElsewhere(task_id, release_id)
      const [second, ...repeated] = yield* Effect.replicateEffect(log("two"), 8, { concurrency: "unbounded" })
      assert.strictEqual(second?.status, 200)
      assert.strictEqual(second?.body["release_id"], release_id)
      for (const { body } of [...repeated, yield* log("two")]) assert.deepStrictEqual(body, second?.body)
      assert.lengthOf(yield* sql`SELECT 1 FROM runs WHERE task_id = ${task_id}`, 2)
    })
  )

  it.effect(
    "concurrent runs claim their idempotency keys by the shared statement, and each key logs one run",
    () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const { admin } = yield* createTeamClients("claims")
        const { id: task_id } = yield* admin.tasks.create({ payload: sortingTask })
        const key = yield* (yield* Countersign).key({ preset: "runtime" }, "claims")
        const principal = yield* (yield* ApiKeys).verify(key)
        const service = yield* Runs
        const log = (idempotencyKey: string, text: string, category = "other") =>
          service
            .run(task_id, { input: { text }, answer: { category } }, { "idempotency-key": idempotencyKey })
            .pipe(Effect.provideService(Authorized("tasks.run"), principal))
        yield* log("first", "first")
        const runs = yield* Effect.forEach(
          Array.from({ length: 40 }, (_, index) => `${index % 20}`),
          (number) => Effect.map(log(number, number), (run) => ({ number, run })),
          { concurrency: "unbounded" }
        )
        for (const { number, run } of runs) assert.deepStrictEqual(yield* log(number, number), run)
        const rows = yield* sql<{ readonly commit: string }>`
        SELECT xmin::text AS commit
        FROM runs
        WHERE task_id = ${task_id}
          AND input ->> 'text' <> 'first'
      `
        assert.lengthOf(rows, 20)
        assert.strictEqual(new Set(runs.map(({ run }) => run.trace_id)).size, 20)
        assert.isAtMost(new Set(rows.map(({ commit }) => commit)).size, 3)
        // The key is checked before the content.
        const other = yield* Effect.flip(log("0", "another input"))
        assert.strictEqual(other._tag, "IDEMPOTENCY_KEY_REUSED")
        const invalid = yield* Effect.flip(log("0", "0", "no category"))
        assert.strictEqual(invalid._tag, "IDEMPOTENCY_KEY_REUSED")
        const unclaimed = yield* Effect.flip(log("unclaimed", "0", "no category"))
        assert.strictEqual(unclaimed._tag, "INVALID_INPUT")
        assert.lengthOf(yield* sql`SELECT 1 FROM idempotency_keys WHERE key = 'unclaimed'`, 0)
        // A claim without a response is kept for 150 seconds, and a response for 24 hours.
        const isLoggedAgain = (age: string, hasResponse: boolean) =>
          Effect.gen(function* () {
            const { trace_id } = yield* log("aged", "aged")
            yield* sql`
            UPDATE idempotency_keys
            SET created_at = created_at - ${age}::interval, answer = CASE WHEN ${hasResponse}::bool THEN answer END
            WHERE key = 'aged'
          `
            return (yield* log("aged", "aged")).trace_id !== trace_id
          })
        assert.isTrue(yield* isLoggedAgain("3 minutes", false))
        assert.isFalse(yield* isLoggedAgain("23 hours", true))
        assert.isTrue(yield* isLoggedAgain("2 hours", true))
      })
  )

  it.effect("a task or session of another organization is refused, even if that organization uses it", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const owner = yield* createTeamClients("owner")
      const other = yield* createTeamClients("other")
      const { id: task_id } = yield* owner.admin.tasks.create({ payload: sortingTask })
      const { id: other_task_id } = yield* other.admin.tasks.create({ payload: sortingTask })
      const { session_id } = yield* owner.runtime.sessions.create()
      const payload = { input, answer, session_id }
      yield* owner.runtime.tasks.run({ params: { id: task_id }, payload })
      yield* owner.runtime.tasks.run({ params: { id: task_id }, payload })
      yield* other.runtime.tasks.run({ params: { id: other_task_id }, payload: { input, answer } })
      const otherTask = yield* Effect.flip(other.runtime.tasks.run({ params: { id: task_id }, payload }))
      assert.strictEqual(otherTask._tag, "NOT_FOUND")
      const otherSession = yield* Effect.flip(
        other.runtime.tasks.run({ params: { id: other_task_id }, payload })
      )
      assert.strictEqual(otherSession._tag, "NOT_FOUND")
      const noSession = yield* Effect.flip(
        owner.runtime.tasks.run({
          params: { id: task_id },
          payload: { ...payload, session_id: SessionId.make(`ses_${"0".repeat(32)}`) }
        })
      )
      assert.strictEqual(noSession._tag, "NOT_FOUND")
      assert.lengthOf(yield* sql`SELECT 1 FROM runs WHERE task_id IN (${task_id}, ${other_task_id})`, 3)
    })
  )
})
