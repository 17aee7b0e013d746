import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { startLearningModel } from "../../../src/cli/demo/learningModel.ts"
import { eventually } from "../../support/eventually.ts"
import { service } from "../../support/service.ts"
import { createTeamClients, sortingExamples, sortingTask } from "../../support/tasks.ts"

layer(service({ environment: { COUNTERSIGN_PROVIDER_ALLOW: "127.0.0.0/8" } }), { excludeTestServices: true })(
  "StoredProvider",
  (it) => {
    it.effect("what a replica of an older version stores during a rolling upgrade is read and runs", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const { admin } = yield* createTeamClients("rolling")
        const model = yield* startLearningModel
        const provider = {
          kind: "openai",
          base_url: model.url,
          model: "small",
          few_shot: { examples: 0, max_tokens: 4_000 }
        } as const
        const task = yield* admin.tasks.create({ payload: { ...sortingTask, provider } })
        const params = { task_id: task.id }
        const [first, ...others] = sortingExamples(["hello", "other"], ["good day", "other"])
        yield* admin.datasets.create({ params, payload: { examples: [first!, ...others] } })
        const { comparison } = yield* admin.comparisons.create({ params, payload: { judge: { provider } } })
        const get = admin.comparisons.get({ params: { id: comparison.id }, query: {} })
        const finished = yield* eventually(get, ({ comparison: { status } }) => status === "completed")
        const { releases } = yield* admin.releases.list({ params })

        const lacked = `'{top_p,seed,max_tokens,reasoning_effort,few_shot,send_traceparent,azure_api_version}'::text[]`
        const asOlder = (column: string) => `(${column}::jsonb - ${lacked})::json`
        yield* sql.unsafe(`UPDATE tasks SET provider = ${asOlder("provider")} WHERE task_id = '${task.id}'`)
        yield* sql.unsafe(
          `UPDATE releases SET provider = ${asOlder("provider")} WHERE task_id = '${task.id}'`
        )
        yield* sql.unsafe(
          `UPDATE comparisons
          SET
            candidate_provider = ${asOlder("candidate_provider")},
            judge = json_build_object('instructions', judge->'instructions', 'provider', ${asOlder("(judge->'provider')")})
          WHERE task_id = '${task.id}'`
        )

        const read = yield* admin.tasks.get({ params })
        assert.deepStrictEqual(read.provider, task.provider)
        assert.deepStrictEqual((yield* admin.tasks.list()).tasks, [read])
        assert.deepStrictEqual((yield* admin.releases.list({ params })).releases, releases)
        assert.deepStrictEqual(yield* get, finished)
        const run = yield* admin.tasks.run({ params, payload: { input: { text: "hello" } } })
        assert.deepStrictEqual(run.answer, { category: "other" })
      })
    )
  }
)
