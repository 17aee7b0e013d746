import { assert, layer } from "@effect/vitest"
import { DateTime, Effect } from "effect"
import { SqlClient, type Statement } from "effect/sql"
import { MAX_INPUT_START } from "../../../src/api/console/FeedbackRows.ts"
import type { FeedbackFilter } from "../../../src/api/Feedback.ts"
import { FeedbackId, OrgId, TaskId } from "../../../src/domain/Ids.ts"
import { runsStatement } from "../../../src/server/console/FeedbackList.ts"
import { listStatement } from "../../../src/server/tasks/Feedback/listFeedback.ts"
import { Countersign } from "../../../src/testing/index.ts"
import { consoleHeaders } from "../../support/consoleCookie.ts"
import { send, service } from "../../support/service.ts"
import { createSortingTask, createTeamClients } from "../../support/tasks.ts"

/** The rows of a page, with the members that a test compares. */
const rowsOf = (body: Readonly<Record<string, unknown>>): ReadonlyArray<Readonly<Record<string, unknown>>> =>
  Array.isArray(body["feedback"]) ? body["feedback"].map((row: unknown) => ({ ...Object(row) })) : []

/** The plan of a statement as it ran. */
const explain = Effect.fnUntraced(function* (statement: Statement.Statement<unknown>) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<{ readonly "QUERY PLAN": string }>`
    EXPLAIN (ANALYZE, TIMING OFF, COSTS OFF, SUMMARY OFF) ${statement}
  `
  return rows.map((row) => row["QUERY PLAN"])
})

/** Checks that a plan uses indexes, and that no node yields or skips more rows than so many. */
const assertBounded = (plan: ReadonlyArray<string>, most: number): void => {
  const text = plan.join("\n")
  assert.notInclude(text, "Seq Scan", text)
  for (const line of plan) {
    const [, rows = "0", loops = "1"] = /actual rows=([\d.]+) loops=(\d+)/.exec(line) ?? []
    assert.isAtMost(Number(rows) * Number(loops), most, text)
    assert.isAtMost(
      Number(/Rows Removed by (?:Filter|Index Recheck): (\d+)/.exec(line)?.[1] ?? 0),
      most,
      text
    )
  }
}

layer(service(), { excludeTestServices: true, timeout: "120 seconds" })("FeedbackList", (it) => {
  it.effect(
    "lists feedback with its task and the start of its run's input, page by page, of the own organization",
    () =>
      Effect.gen(function* () {
        const { key } = yield* Countersign
        const { admin, runtime } = yield* createTeamClients("queue")
        const { params, task } = yield* createSortingTask(admin, ["where is my parcel", "shipping"])
        const give = Effect.fnUntraced(function* (text: string, score: 1 | -1) {
          const run = yield* runtime.tasks.run({
            params,
            payload: { input: { text }, answer: { category: "other" } }
          })
          const { id } = yield* admin.feedback.create({
            payload: {
              inference_log_id: run.trace_id,
              score,
              ...(score === 1 ? {} : { correction: { category: "billing" } })
            }
          })
          return id
        })
        const hostile = "<img src=x onerror=alert(1)>\u202e\u0001 ".padEnd(2_000, "W")
        // Compressed, it is small.
        const huge = "a".repeat(900_000)
        const first = yield* give("the invoice is wrong", -1)
        const second = yield* give(hostile, -1)
        const third = yield* give(huge, -1)
        const praise = yield* give("thank you", 1)
        const headers = yield* consoleHeaders(yield* key({ preset: "reviewer" }, "queue"))
        const all = yield* send("/console/feedback-rows/", { headers })
        assert.strictEqual(all.status, 200)
        assert.deepStrictEqual(
          rowsOf(all.body).map(({ id, input_start, task_name }) => [id, task_name, input_start]),
          [
            [praise, task.name, '{"text":"thank you"}'],
            [third, task.name, null],
            [second, task.name, JSON.stringify({ text: hostile }).slice(0, MAX_INPUT_START)],
            [first, task.name, '{"text":"the invoice is wrong"}']
          ]
        )
        // Filters and cursors are those of the list of feedback.
        const page = yield* send("/console/feedback-rows/?limit=2&status=pending", { headers })
        assert.deepStrictEqual(
          rowsOf(page.body).map(({ id }) => id),
          [third, second]
        )
        const next = String(page.body["next_cursor"])
        const rest = yield* send(`/console/feedback-rows/?limit=2&status=pending&cursor=${next}`, { headers })
        assert.deepStrictEqual(
          rowsOf(rest.body).map(({ id }) => id),
          [first]
        )
        assert.isNull(rest.body["next_cursor"])
        const scored = yield* send(`/console/feedback-rows/?score=1&task_id=${task.id}`, { headers })
        assert.deepStrictEqual(
          rowsOf(scored.body).map(({ id }) => id),
          [praise]
        )
        const stranger = yield* consoleHeaders(yield* key({}, "another queue"))
        assert.deepStrictEqual(
          rowsOf((yield* send("/console/feedback-rows/", { headers: stranger })).body),
          []
        )
        const without = yield* consoleHeaders(yield* key({ preset: "runtime" }, "queue"))
        assert.strictEqual((yield* send("/console/feedback-rows/", { headers: without })).status, 403)
        const malformed = yield* send("/console/feedback-rows/?cursor=fbk_x", { headers })
        assert.strictEqual(malformed.status, 400)
      }).pipe(Effect.orDie)
  )

  it.effect(
    "reads a page by indexes with every filter, among much feedback of many tasks and organizations",
    () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const org_id = OrgId.make("org_".padEnd(36, "a"))
        const task_id = TaskId.make("tsk_".padEnd(36, "1"))
        yield* sql.withTransaction(
          Effect.gen(function* () {
            yield* sql`
            INSERT INTO tasks
            SELECT (jsonb_populate_record(existing, jsonb_build_object(
              'org_id', org.id, 'task_id', 'tsk_' || repeat(to_hex(n), 32), 'name', 'Task ' || n))).*
            FROM tasks AS existing
              CROSS JOIN (VALUES (${org_id}), (${"org_".padEnd(36, "b")})) AS org (id)
              CROSS JOIN generate_series(0, 15) AS n
            WHERE existing.task_id = (SELECT min(task_id) FROM tasks)
          `
            yield* sql`
            INSERT INTO runs (
              org_id, trace_id, run_id, task_id, release_id, source, status, input, answer, metadata, provider_calls, created_at,
              created_by_id, created_by_name, bytes
            )
            SELECT
              org.id, md5(n::text), 'run_' || lpad(to_hex(n), 32, '0'), 'tsk_' || repeat(to_hex(n % 16), 32), 'rel_1', 'logged', 'succeeded',
              json_build_object('text', 'message ' || n), '{}', '{}', 0, now(), 'key_1', 'a', 40
            FROM generate_series(1, 10000) AS n
              CROSS JOIN (VALUES (${org_id}), (${"org_".padEnd(36, "b")})) AS org (id)
          `
            yield* sql`
            INSERT INTO feedback (
              org_id, feedback_id, task_id, trace_id, run_id, score, correction, bytes, status, comment, score_label, created_at,
              created_by_id, created_by_name, author
            )
            SELECT
              org_id, 'fbk_' || substr(run_id, 5), task_id, trace_id, run_id,
              -- One in 250 is pending.
              CASE WHEN n % 250 = 0 THEN -1 ELSE 1 END, CASE WHEN n % 250 = 0 THEN '{}'::json END, 2,
              CASE WHEN n % 250 = 0 THEN 'pending' ELSE 'recorded' END,
              CASE WHEN n % 500 = 0 THEN 'a comment' END, CASE WHEN n % 700 = 0 THEN 'too long' END, now(), 'key_1', 'a', 'key_1'
            FROM runs
              CROSS JOIN LATERAL (SELECT ('x' || right(run_id, 8))::bit(32)::int AS n) AS number
            WHERE org_id IN (${org_id}, ${"org_".padEnd(36, "b")})
          `
          })
        )
        yield* sql`ANALYZE feedback, runs, tasks`
        const limit = 50
        // Each of the pairs of status and score yields a page at most.
        const most = (limit + 1) * 18
        const now = yield* DateTime.now
        const filters: ReadonlyArray<FeedbackFilter> = [
          {},
          { status: "pending" },
          { status: "pending", task_id },
          { status: "recorded", score: 1 },
          { task_id },
          { score: -1 },
          { score_label: "too long" },
          { has_comment: true },
          { has_correction: true },
          { status: "pending", created_after: DateTime.subtract(now, { days: 1 }), created_before: now }
        ]
        for (const filter of filters) {
          assertBounded(yield* explain(listStatement(sql, org_id, { limit, ...filter })), most)
        }
        const ids = (yield* sql<{ readonly feedback_id: string }>`
        SELECT feedback_id FROM feedback WHERE org_id = ${org_id} ORDER BY feedback_id DESC LIMIT ${limit}
      `).map(({ feedback_id }) => FeedbackId.make(feedback_id))
        assert.strictEqual(ids.length, limit)
        const statement = runsStatement(sql, org_id, ids)
        // The tasks are few, so that a plan may read them all.
        const plan = (yield* explain(statement)).filter((line) => !line.includes("on tasks"))
        assertBounded(plan, limit)
        assert.strictEqual((yield* statement).length, limit)
      }).pipe(Effect.orDie)
  )
})
