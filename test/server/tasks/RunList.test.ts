import { assert, layer } from "@effect/vitest"
import { DateTime, Effect, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { Authorized } from "../../../src/api/Authorization.ts"
import type { RunRow, RunRowFilter } from "../../../src/api/console/RunRows.ts"
import type { PageRequest } from "../../../src/api/Pagination.ts"
import type { OrgId, RunId } from "../../../src/domain/Ids.ts"
import type { Principal } from "../../../src/domain/identity/Principal.ts"
import { RunList, selectRows } from "../../../src/server/tasks/RunList.ts"
import { ApiKeys } from "../../../src/server/identity/ApiKeys.ts"
import { Countersign } from "../../../src/testing/index.ts"
import { createDesk } from "../../support/feedback.ts"
import { service } from "../../support/service.ts"
import { sortingTask } from "../../support/tasks.ts"

const answer = { category: "other" }

const principalOf = Effect.fnUntraced(function* (organization: string, input: object = {}) {
  const { key } = yield* Countersign
  return yield* (yield* ApiKeys).verify(yield* key(input, organization))
})

const readPage = Effect.fnUntraced(function* (
  principal: Principal,
  request: PageRequest<RunId> & RunRowFilter
) {
  const rows = yield* RunList
  return yield* Effect.provideService(rows.list(request), Authorized("runs.read"), principal)
})

/** Every page of the list. */
const readAll = Effect.fnUntraced(function* (
  principal: Principal,
  filter: RunRowFilter & { readonly limit?: number } = {}
) {
  const all: Array<RunRow> = []
  let cursor: RunId | null = null
  for (let pages = 0; pages < 100; pages++) {
    const page: { readonly items: ReadonlyArray<RunRow>; readonly next_cursor: RunId | null } =
      yield* readPage(principal, { ...filter, ...(cursor === null ? {} : { cursor }) })
    all.push(...page.items)
    cursor = page.next_cursor
    if (cursor === null) return all
  }
  return assert.fail("the list does not end")
})

const decodeInput = Schema.decodeUnknownSync(
  Schema.fromJsonString(Schema.Struct({ text: Schema.optionalKey(Schema.String) }))
)

const inputs = (rows: ReadonlyArray<RunRow>) =>
  rows.map(({ input_start }) => decodeInput(input_start ?? "{}").text)

/** A desk with two tasks, and a function that logs a run of the second. */
const createTwoTasks = Effect.fnUntraced(function* (organization: string) {
  const desk = yield* createDesk(organization)
  const other = yield* desk.admin.tasks.create({ payload: { ...sortingTask, name: "other task" } })
  const log = (text: string, duration_ms?: number) =>
    desk.admin.tasks.run({
      params: { id: other.id },
      payload: {
        input: { text },
        answer,
        ...(duration_ms === undefined ? {} : { answered_by: { duration_ms } })
      }
    })
  return { ...desk, other, log, principal: yield* principalOf(organization) }
})

/** Copies the runs of an organization `times` times, with ids before theirs. */
const multiplyRuns = (org_id: OrgId, times: number) =>
  Effect.flatMap(
    SqlClient.SqlClient,
    (sql) => sql`
      INSERT INTO runs (
        org_id, trace_id, run_id, task_id, release_id, source, status, input, answer, failure, metadata, provider_calls, duration_ms,
        created_at, created_by_id, created_by_name, bytes
      )
      SELECT
        org_id, md5(run_id || n), 'run_' || lpad(to_hex(n), 12, '0') || substr(run_id, 17), task_id, release_id, source,
        CASE WHEN n % 1000 = 0 THEN 'failed' ELSE status END, input, CASE WHEN n % 1000 = 0 THEN NULL ELSE answer END,
        CASE WHEN n % 1000 = 0 THEN 'timed out' END, metadata, provider_calls, CASE WHEN n % 1000 = 1 THEN 30000 ELSE 200 END, created_at,
        created_by_id, created_by_name, 200
      FROM runs, generate_series(1, ${times}::int) AS n
      WHERE org_id = ${org_id}
    `
  )

layer(service(), { excludeTestServices: true, timeout: "60 seconds" })("RunList", (it) => {
  it.effect("runs of all tasks are listed newest first, with their task, release and newest feedback", () =>
    Effect.gen(function* () {
      const { correct, log, other, principal, reviewer, run, task } = yield* createTwoTasks("all tasks")
      const first = yield* run("one")
      yield* log("two", 1_234)
      yield* reviewer.feedback.create({ payload: { inference_log_id: first, score: 1 } })
      yield* correct(first, { category: "billing" })
      const [newest, oldest, ...rest] = yield* readAll(principal)
      assert.lengthOf(rest, 0)
      assert.deepInclude(newest, {
        task_id: other.id,
        task_name: "other task",
        release_role: "live",
        duration_ms: 1_234,
        answer_start: JSON.stringify(answer),
        failure_start: null,
        feedback: null
      })
      assert.deepInclude(oldest, {
        trace_id: first,
        task_name: task.name,
        input_start: '{"text":"one"}',
        feedback: { score: -1, has_correction: true }
      })
    }).pipe(Effect.orDie)
  )

  it.effect("filters find runs over all tasks, and of one", () =>
    Effect.gen(function* () {
      const { correct, log, other, principal, run, task } = yield* createTwoTasks("filters")
      const one = yield* run("one")
      yield* log("two", 900)
      yield* log("three", 12_000)
      const { created_at } = yield* log("four", 70_000)
      yield* correct(one, { category: "billing" })
      const find = (filter: RunRowFilter) => Effect.map(readAll(principal, filter), inputs)
      assert.deepStrictEqual(yield* find({ task_id: task.id }), ["one"])
      assert.deepStrictEqual(yield* find({ score: -1 }), ["one"])
      assert.deepStrictEqual(yield* find({ has_feedback: true }), ["one"])
      assert.deepStrictEqual(yield* find({ score: -1, task_id: other.id }), [])
      assert.deepStrictEqual(yield* find({ has_feedback: false }), ["four", "three", "two"])
      assert.deepStrictEqual(yield* find({ min_duration_ms: 900 }), ["four", "three", "two"])
      assert.deepStrictEqual(yield* find({ min_duration_ms: 12_001 }), ["four"])
      assert.deepStrictEqual(yield* find({ min_duration_ms: 901, task_id: task.id }), [])
      assert.deepStrictEqual(yield* find({ text: "THREE" }), ["three"])
      assert.deepStrictEqual(yield* find({ status: "failed" }), [])
      assert.deepStrictEqual(yield* find({ release_id: task.live_release_id }), [])
      assert.deepStrictEqual(yield* find({ created_after: DateTime.add(created_at, { minutes: 1 }) }), [])
      assert.deepStrictEqual(yield* Effect.map(readAll(principal, { limit: 1 }), inputs), [
        "four",
        "three",
        "two",
        "one"
      ])
    }).pipe(Effect.orDie)
  )

  it.effect("runs of other organizations and of deleted tasks are not listed", () =>
    Effect.gen(function* () {
      const { admin, log, other, principal, run } = yield* createTwoTasks("own")
      yield* run("kept")
      yield* log("of a deleted task")
      const stranger = yield* principalOf("stranger")
      assert.deepStrictEqual(yield* readAll(stranger), [])
      assert.deepStrictEqual(yield* readAll(stranger, { task_id: other.id }), [])
      const sql = yield* SqlClient.SqlClient
      yield* admin.tasks.remove({ params: { id: other.id } })
      assert.deepStrictEqual(inputs(yield* readAll(principal)), ["kept"])
      assert.isAtMost((yield* sql`SELECT 1 FROM tasks WHERE task_id = ${other.id}`).length, 0)
    }).pipe(Effect.orDie)
  )

  it.effect("feedback is shown to keys with the scope feedback.read only", () =>
    Effect.gen(function* () {
      const { correct, run } = yield* createDesk("scopes")
      yield* correct(yield* run("one"), { category: "billing" })
      const reader = yield* principalOf("scopes", { scopes: ["runs.read"] })
      const [row] = yield* readAll(reader)
      assert.isNull((row ?? assert.fail("no run")).feedback)
    }).pipe(Effect.orDie)
  )

  it.effect("a large input or answer is not read for the list, and many large ones fit on a page", () =>
    Effect.gen(function* () {
      const { admin, params } = yield* createDesk("large")
      const principal = yield* principalOf("large")
      // Incompressible, so that its stored size is large.
      const text = Array.from({ length: 60_000 }, (_, at) =>
        String.fromCharCode(0x4e00 + ((at * 7_919) % 20_000))
      ).join("")
      for (const n of [1, 2, 3]) {
        yield* admin.tasks.run({ params, payload: { input: { text: `${n}${text}` }, answer } })
      }
      const { items, next_cursor } = yield* readPage(principal, {})
      assert.deepStrictEqual(
        items.map(({ answer_start, input_start }) => [input_start, answer_start]),
        Array.from({ length: 3 }, () => [null, JSON.stringify(answer)])
      )
      assert.isNull(next_cursor)
    }).pipe(Effect.orDie)
  )

  it.effect("each filter of all tasks reads an index, and few runs, of many", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { log, principal } = yield* createTwoTasks("many")
      yield* log("one")
      yield* multiplyRuns(principal.org_id, 10_000)
      yield* sql`ANALYZE runs`
      const plan = (filter: RunRowFilter) =>
        Effect.map(
          sql<{ readonly "QUERY PLAN": string }>`
            EXPLAIN (ANALYZE, TIMING OFF, COSTS OFF, SUMMARY OFF) ${selectRows(sql, principal.org_id, filter)}
          `,
          (rows) => rows.map((row) => row["QUERY PLAN"]).join("\n")
        )
      const expected: ReadonlyArray<readonly [RunRowFilter, index: string]> = [
        [{}, "runs_newest"],
        [{ status: "failed" }, "runs_newest_failed"],
        [{ min_duration_ms: 30_000 }, "runs_slow"],
        [{ has_feedback: true }, "feedback_scored_runs"],
        [{ awaits_review: true }, "run_reviews_newest"]
      ]
      for (const [filter, index] of expected) {
        const text = yield* plan(filter)
        assert.include(text, index, JSON.stringify(filter))
        assert.notInclude(text, "Seq Scan on runs", text)
        // A page, and one more.
        assert.isBelow(rowsRead(text, "runs"), 400, text)
      }
      for (const filter of [{ text: "nowhere" }, { has_feedback: false }] satisfies Array<RunRowFilter>) {
        const text = yield* plan(filter)
        assert.notInclude(text, "Seq Scan on runs", text)
        assert.isAbove(rowsRead(text, "runs"), 2_000, text)
        // What one request examines: each run is read for its size, and for its content.
        assert.isBelow(rowsRead(text, "runs"), 3 * 2_100, text)
      }
    }).pipe(Effect.orDie)
  )
})

/** The rows that the nodes of a plan read from a table. */
const rowsRead = (plan: string, table: string): number =>
  Array.from(
    plan.matchAll(new RegExp(String.raw`Scan (?:using \S+ )?on ${table}\b.*rows=([\d.]+) loops=(\d+)`, "gu"))
  ).reduce((sum, [, rows, loops]) => sum + Number(rows) * Number(loops), 0)
