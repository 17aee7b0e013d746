import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { MAX_HISTORY } from "../../../src/api/console/AgreementHistory.ts"
import type { ClientCalls } from "../../../src/client/Client.ts"
import { OrgId, TaskId } from "../../../src/domain/Ids.ts"
import { historyStatement } from "../../../src/server/console/AgreementHistory.ts"
import { Countersign } from "../../../src/testing/index.ts"
import { consoleHeaders } from "../../support/consoleCookie.ts"
import { send, service } from "../../support/service.ts"
import { createSortingTask } from "../../support/tasks.ts"

const hold_out = { kind: "none" } as const

const compareAndRelease = (admin: ClientCalls, params: { readonly id: TaskId }) =>
  Effect.gen(function* () {
    const { comparison } = yield* admin.comparisons.create({ params, payload: { hold_out } })
    yield* Effect.repeat(admin.comparisons.get({ params: { id: comparison.id } }), {
      until: (found) => found.comparison.status === "completed"
    })
    const release = yield* admin.releases.create({
      params,
      payload: { comparison_id: comparison.id, force: true, reason: "For the test." }
    })
    return { comparison_id: comparison.id, release }
  })

layer(service(), { excludeTestServices: true, timeout: "120 seconds" })("AgreementHistory", (it) => {
  it.effect(
    "lists releases oldest first, with the agreement of both sides; a rollback has that of its release",
    () =>
      Effect.gen(function* () {
        const { client, key } = yield* Countersign
        const admin = yield* client({}, "history")
        const { dataset, params, task } = yield* createSortingTask(
          admin,
          ["where is my parcel", "shipping"],
          ["the invoice is wrong", "other"]
        )
        const first = yield* compareAndRelease(admin, params)
        yield* admin.datasets.create({
          params,
          payload: {
            base_dataset_id: dataset.id,
            examples: [{ input: { text: "the invoice is wrong" }, answer: { category: "billing" } }]
          }
        })
        const second = yield* compareAndRelease(admin, params)
        yield* admin.releases.create({ params, payload: { release_id: first.release.id } })
        const headers = yield* consoleHeaders(yield* key({ preset: "reviewer" }, "history"))
        const { body, status } = yield* send(`/console/agreement/${task.id}`, { headers })
        assert.strictEqual(status, 200)
        const releases = body["releases"]
        assert.isArray(releases)
        const rows = (Array.isArray(releases) ? releases : []).map((one) => Object(one))
        assert.deepStrictEqual(
          rows.map((one) => [Reflect.get(one, "is_rollback"), Reflect.get(Object(one.comparison), "id")]),
          [
            [false, undefined],
            [false, first.comparison_id],
            [false, second.comparison_id],
            [true, first.comparison_id]
          ]
        )
        assert.deepInclude(rows[2].comparison, { compared: 2, agreement: 1, live_agreement: 0.5 })
        const stranger = yield* consoleHeaders(yield* key({}, "elsewhere"))
        assert.strictEqual((yield* send(`/console/agreement/${task.id}`, { headers: stranger })).status, 404)
        const without = yield* consoleHeaders(yield* key({ preset: "integration" }, "history"))
        assert.strictEqual((yield* send(`/console/agreement/${task.id}`, { headers: without })).status, 403)
      }).pipe(Effect.orDie)
  )

  it.effect("reads the newest releases of the task by indexes, however many there are", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const org_id = OrgId.make("org_".padEnd(36, "a"))
      const task_id = TaskId.make("tsk_".padEnd(36, "a"))
      yield* sql`
        INSERT INTO comparisons (
          org_id, comparison_id, task_id, task_revision, live_release_id, candidate_instructions, candidate_provider, dataset_id,
          status, example_count, tally, created_at, created_by_id, created_by_name
        )
        SELECT ${org_id}, 'cmp_' || md5(n::text), CASE WHEN n % 10 = 0 THEN ${task_id} ELSE 'tsk_' || md5((n % 10)::text) END, 1, 'rel_x', '',
          '{"kind":"examples","model":"nearest","min_score":0}', 'dst_' || md5('1'),
          'completed', 1, '{"both":1,"candidate_only":0,"live_only":0,"neither":0}', now(), 'key_x', 'x'
        FROM generate_series(1, 20000) AS n
      `
      yield* sql`
        INSERT INTO releases (org_id, release_id, task_id, number, instructions, provider, comparison_id, created_at, created_by_id, created_by_name)
        SELECT org_id, 'rel_' || substr(comparison_id, 5), task_id, 1 + row_number() OVER (ORDER BY comparison_id), '', candidate_provider, comparison_id, now(), 'key_x', 'x'
        FROM comparisons
        WHERE org_id = ${org_id}
      `
      yield* sql`ANALYZE comparisons, releases`
      const plan = yield* sql<{ readonly "QUERY PLAN": string }>`
        EXPLAIN (ANALYZE, TIMING OFF, COSTS OFF, SUMMARY OFF) ${historyStatement(sql, org_id, task_id)}
      `
      const lines = plan.map((row) => row["QUERY PLAN"])
      const text = lines.join("\n")
      assert.notInclude(text, "Seq Scan", text)
      for (const line of lines) {
        assert.isAtMost(Number(/actual rows=([\d.]+)/.exec(line)?.[1] ?? 0), MAX_HISTORY, text)
      }
      const rows = yield* historyStatement(sql, org_id, task_id)
      assert.strictEqual(rows.length, MAX_HISTORY)
    }).pipe(Effect.orDie)
  )
})
