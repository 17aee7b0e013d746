import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { Authorized } from "../../../src/api/Authorization.ts"
import { MAX_WAITING_COUNT, type TaskRow } from "../../../src/api/console/TaskRows.ts"
import type { TaskId } from "../../../src/domain/Ids.ts"
import type { Principal } from "../../../src/domain/identity/Principal.ts"
import { ApiKeys } from "../../../src/server/identity/ApiKeys.ts"
import { selectTasks, TaskList } from "../../../src/server/tasks/TaskList.ts"
import { Countersign } from "../../../src/testing/index.ts"
import { createDesk } from "../../support/feedback.ts"
import { service } from "../../support/service.ts"
import { sortingTask } from "../../support/tasks.ts"

const principalOf = Effect.fnUntraced(function* (organization: string, input: object = {}) {
  const { key } = yield* Countersign
  return yield* (yield* ApiKeys).verify(yield* key(input, organization))
})

const listAs = Effect.fnUntraced(function* (principal: Principal, limit?: number) {
  const rows = yield* TaskList
  const list = (cursor?: TaskId) =>
    Effect.provideService(
      rows.list({ ...(limit === undefined ? {} : { limit }), ...(cursor === undefined ? {} : { cursor }) }),
      Authorized("tasks.read"),
      principal
    )
  const all: Array<TaskRow> = []
  let page = yield* list()
  for (;;) {
    all.push(...page.items)
    if (page.next_cursor === null) return all
    page = yield* list(page.next_cursor)
  }
})

layer(service(), { excludeTestServices: true, timeout: "60 seconds" })("TaskList", (it) => {
  it.effect("tasks are listed with their dataset, runs, feedback and what waits for a person", () =>
    Effect.gen(function* () {
      const { admin, correct, params, reviewer, run, stage, task } = yield* createDesk("figures")
      const other = yield* admin.tasks.create({ payload: { ...sortingTask, name: "empty" } })
      yield* admin.tasks.update({ params, payload: { review_share: 1 } })
      const [one, two] = [yield* run("one"), yield* run("two")]
      yield* run("three")
      yield* correct(one, { category: "billing" })
      yield* stage((yield* correct(two, { category: "billing" })).id)
      yield* reviewer.feedback.create({ payload: { inference_log_id: two, score: 1 } })
      const rows = yield* listAs(yield* principalOf("figures"), 1)
      assert.deepStrictEqual(
        rows.map(({ name }) => name),
        ["empty", task.name]
      )
      assert.deepInclude(rows[0], {
        id: other.id,
        dataset: null,
        runs: 0,
        pending_corrections: 0,
        runs_to_review: 0
      })
      const { dataset, ...row } = rows[1] ?? assert.fail("no task")
      assert.deepInclude(row, {
        model: null,
        runs: 3,
        feedback: { positive: 1, neutral: 0, negative: 2 },
        pending_corrections: 1,
        staged_corrections: 1,
        runs_to_review: 1
      })
      assert.deepInclude(dataset, { version: 1, example_count: 1 })
      assert.deepStrictEqual(yield* listAs(yield* principalOf("stranger")), [])
    }).pipe(Effect.orDie)
  )

  it.effect("figures are shown with the scopes to read what they count only", () =>
    Effect.gen(function* () {
      const { correct, run } = yield* createDesk("scopes")
      yield* correct(yield* run("one"), { category: "billing" })
      const [row] = yield* listAs(yield* principalOf("scopes", { scopes: ["tasks.read"] }))
      assert.deepInclude(row, {
        feedback: null,
        pending_corrections: null,
        staged_corrections: null,
        runs_to_review: null
      })
    }).pipe(Effect.orDie)
  )

  it.effect("a long queue is counted to a limit, by an index", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { correct, run, task } = yield* createDesk("long")
      yield* correct(yield* run("one"), { category: "billing" })
      const principal = yield* principalOf("long")
      yield* sql`
        INSERT INTO feedback (
          org_id, feedback_id, task_id, trace_id, run_id, score, correction, bytes, status, created_at, created_by_id, created_by_name,
          author
        )
        SELECT
          org_id, left(feedback_id, 17) || lpad(to_hex(n), 19, '0'), task_id, trace_id, run_id, score, correction, bytes, status, created_at,
          created_by_id, created_by_name, 'author_' || n
        FROM feedback, generate_series(1, 5000) AS n
        WHERE task_id = ${task.id}
      `
      yield* sql`ANALYZE feedback`
      const [row] = yield* listAs(principal)
      assert.strictEqual(row?.pending_corrections, MAX_WAITING_COUNT)
      const plan = yield* sql<{ readonly "QUERY PLAN": string }>`
        EXPLAIN (ANALYZE, TIMING OFF, COSTS OFF, SUMMARY OFF) ${selectTasks(sql, principal.org_id, {}, "2026-01-01")}
      `
      const text = plan.map((line) => line["QUERY PLAN"]).join("\n")
      assert.notMatch(text, /Seq Scan on (feedback|runs|run_reviews|run_counts)\b/u)
      assert.notMatch(text, /on feedback.*rows=[2-9]\d{3}/u)
    }).pipe(Effect.orDie)
  )
})
