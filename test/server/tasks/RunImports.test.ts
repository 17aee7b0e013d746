import { assert, layer } from "@effect/vitest"
import { DateTime, Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { ImportedRun } from "../../../src/api/Runs.ts"
import { Countersign } from "../../../src/testing/index.ts"
import { createDesk, tagOf } from "../../support/feedback.ts"
import { pointersOf, send, service } from "../../support/service.ts"
import { sortingTask } from "../../support/tasks.ts"

const past = (id: string, more: Partial<ImportedRun> = {}): ImportedRun => ({
  id,
  input: { text: id },
  answer: { category: "other" },
  ...more
})

const started_at = DateTime.makeUnsafe("2024-05-06T07:08:09.123Z")

layer(service(), { excludeTestServices: true })("RunImports", (it) => {
  it.effect("a past run is logged with its model, usage, times, metadata and score", () =>
    Effect.gen(function* () {
      const { admin, params } = yield* createDesk("imported")
      const answered_by = {
        provider: "anthropic",
        model: "large",
        usage: { input_tokens: 184, output_tokens: 31 },
        started_at,
        duration_ms: 840
      }
      const { problems, runs } = yield* admin.runs.import({
        params,
        payload: { runs: [past("a", { answered_by, metadata: { customer: "acme" }, score: -1 })] }
      })
      assert.deepStrictEqual(problems, [])
      const [imported] = runs
      assert.deepInclude(imported, { id: "a", status: "imported" })
      const run = yield* admin.runs.get({ params: { id: imported?.trace_id ?? assert.fail("a run") } })
      assert.deepInclude(run, {
        input: { text: "a" },
        answer: { category: "other" },
        source: "logged",
        status: "succeeded",
        provider: "anthropic",
        model: "large",
        usage: { input_tokens: 184, output_tokens: 31 },
        duration_ms: 840,
        metadata: { customer: "acme" }
      })
      assert.deepStrictEqual([run.started_at, run.created_at].map(String), [
        String(started_at),
        String(started_at)
      ])
      const found = yield* admin.runs.list({
        params,
        query: { score: -1, created_before: DateTime.makeUnsafe("2024-05-06T07:08:10Z") }
      })
      assert.deepStrictEqual(
        found.runs.map(({ trace_id }) => trace_id),
        [run.trace_id]
      )
      // The score counts on the day of the run.
      const { days } = yield* admin.feedback.getQuality({ params, query: { days: 7 } })
      assert.deepStrictEqual(days, [])
      const { feedback } = yield* admin.feedback.list({ query: { inference_log_id: run.trace_id } })
      assert.deepStrictEqual(
        feedback.map(({ created_at }) => String(created_at)),
        [String(started_at)]
      )
      const { entries } = yield* admin.auditLog.list({ query: { action: "runs.imported" } })
      assert.deepStrictEqual(
        entries.map(({ detail, target_id }) => [target_id, detail]),
        [[params.id, { runs: 1, scores: 1 }]]
      )
    })
  )

  it.effect("a run is imported once by its id, also by concurrent requests, with its score", () =>
    Effect.gen(function* () {
      const { admin, params } = yield* createDesk("once")
      const ids = Array.from({ length: 100 }, (_, index) => `run ${index}`)
      const request = (list: ReadonlyArray<string>) =>
        admin.runs.import({ params, payload: { runs: list.map((id) => past(id, { score: 1 })) } })
      const results = yield* Effect.all([request(ids), request(ids.toReversed()), request(ids)], {
        concurrency: "unbounded"
      })
      const imported = results.flatMap(({ runs }) =>
        runs.filter(({ status }) => status === "imported").map(({ id }) => id)
      )
      assert.sameMembers(imported, ids)
      const again = yield* request(["run 1", "run 1", "new", "new"])
      assert.deepStrictEqual(
        again.runs.map(({ status }) => status),
        ["duplicate", "duplicate", "imported", "duplicate"]
      )
      const sql = yield* SqlClient.SqlClient
      const [row] = yield* sql<{ readonly runs: number; readonly feedback: number }>`
        SELECT
          (SELECT count(*)::int FROM runs WHERE task_id = ${params.id}) AS runs,
          (SELECT count(*)::int FROM feedback WHERE task_id = ${params.id}) AS feedback
      `
      assert.deepStrictEqual(row, { runs: 101, feedback: 101 })
    })
  )

  it.effect("the same id in another task or organization is another run", () =>
    Effect.gen(function* () {
      const here = yield* createDesk("here")
      const there = yield* createDesk("there")
      const second = yield* here.admin.tasks.create({ payload: sortingTask })
      const imports = [
        here.admin.runs.import({ params: here.params, payload: { runs: [past("a")] } }),
        here.admin.runs.import({ params: { id: second.id }, payload: { runs: [past("a")] } }),
        there.admin.runs.import({ params: there.params, payload: { runs: [past("a")] } })
      ]
      const results = yield* Effect.all(imports)
      assert.strictEqual(new Set(results.map(({ runs }) => runs[0]?.trace_id)).size, 3)
      assert.strictEqual(
        yield* tagOf(there.admin.runs.import({ params: here.params, payload: { runs: [past("b")] } })),
        "NOT_FOUND"
      )
    })
  )

  it.effect("invalid runs are named with their faults, and the others are imported", () =>
    Effect.gen(function* () {
      const { admin, params } = yield* createDesk("faults")
      const { problems, runs } = yield* admin.runs.import({
        params,
        payload: {
          runs: [
            past("valid"),
            past("a", { answer: { category: "sales" } }),
            past("b", { input: {} }),
            past("c", { created_at: DateTime.makeUnsafe("1970-01-20T00:00:00Z") }),
            past("d", { created_at: DateTime.makeUnsafe("2099-01-01T00:00:00Z") })
          ]
        }
      })
      assert.deepStrictEqual(
        runs.map(({ id }) => id),
        ["valid"]
      )
      assert.deepStrictEqual(
        problems.map(({ errors, id, index }) => [index, id, errors[0]?.pointer]),
        [
          [1, "a", "#/runs/1/answer/category"],
          [2, "b", "#/runs/2/input/text"],
          [3, "c", "#/runs/3/created_at"],
          [4, "d", "#/runs/4/created_at"]
        ]
      )
    })
  )

  it.effect("a score needs a key that may give feedback", () =>
    Effect.gen(function* () {
      const { params } = yield* createDesk("unscored")
      const runtime = yield* Effect.flatMap(Countersign, (countersign) =>
        countersign.client({ preset: "runtime" }, "unscored")
      )
      const { problems, runs } = yield* runtime.runs.import({
        params,
        payload: { runs: [past("a", { score: 1 }), past("b")] }
      })
      assert.deepStrictEqual(
        runs.map(({ id }) => id),
        ["b"]
      )
      assert.strictEqual(problems[0]?.errors[0]?.pointer, "#/runs/0/score")
    })
  )

  it.effect("a request with a run of another form imports nothing, and names each place", () =>
    Effect.gen(function* () {
      const { admin, params } = yield* createDesk("malformed")
      const key = yield* Effect.flatMap(Countersign, (countersign) => countersign.key({}, "malformed"))
      const refused = yield* send(`/v1/tasks/${params.id}/runs/import`, {
        key,
        method: "POST",
        body: JSON.stringify({ runs: [past("a"), { id: "", input: 1, answer: {} }] })
      })
      assert.strictEqual(refused.status, 400)
      assert.includeMembers([...pointersOf(refused)], ["#/runs/1/id", "#/runs/1/input"])
      assert.lengthOf((yield* admin.runs.list({ params, query: {} })).runs, 0)
    })
  )
})

layer(service({ environment: { COUNTERSIGN_STORED_RUN_LIMIT: "3" } }), { excludeTestServices: true })(
  "RunImports › limits",
  (it) => {
    it.effect("an organization that stores as many runs as it may imports none", () =>
      Effect.gen(function* () {
        const { admin, params } = yield* createDesk("full")
        yield* admin.runs.import({ params, payload: { runs: ["a", "b", "c"].map((id) => past(id)) } })
        assert.strictEqual(
          yield* tagOf(admin.runs.import({ params, payload: { runs: [past("d")] } })),
          "LIMIT_REACHED"
        )
      })
    )
  }
)
