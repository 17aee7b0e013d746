import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { startModelServer } from "../../../support/model.ts"
import { service } from "../../../support/service.ts"
import { sortingExamples, sortingTask, createTeamClients } from "../../../support/tasks.ts"

layer(service({ environment: { COUNTERSIGN_PROVIDER_ALLOW: "127.0.0.0/8" } }), { excludeTestServices: true })(
  "Comparisons › cancel",
  (it) => {
    it.effect("a cancelled comparison starts no further example, and keeps what it has spent", () =>
      Effect.gen(function* () {
        const { admin, reviewer } = yield* createTeamClients("cancel")
        const model = yield* startModelServer(() => ({
          answer: { category: "billing" },
          input_tokens: 10,
          output_tokens: 1
        }))
        const task = yield* admin.tasks.create({
          payload: {
            ...sortingTask,
            provider: { kind: "openai", base_url: model.url, model: "small", timeout_seconds: 4 }
          }
        })
        const params = { task_id: task.id }
        const texts = Array.from({ length: 60 }, (_, index) => [`message ${index}`, "billing"] as const)
        const [first, ...others] = sortingExamples(...texts)
        yield* admin.datasets.create({ params, payload: { examples: [first!, ...others] } })
        // The model answers a few requests and leaves the others open until they time out.
        model.silentAfter(4)
        const { comparison } = yield* admin.comparisons.create({ params, payload: {} })
        const { id } = comparison
        yield* model.silent

        const cancelled = yield* admin.comparisons.cancel({ params: { id } })
        assert.deepInclude(cancelled.comparison, { status: "cancelled", failure: "Cancelled by Ada." })
        assert.isNotNull(cancelled.comparison.finished_at)
        const get = Effect.map(reviewer.comparisons.get({ params: { id }, query: {} }), (found) => found)
        // The examples in progress end by the time-out, and are recorded with the others.
        const done = yield* Effect.repeat(get, {
          until: (found) => found.comparison.compared > 0
        })
        assert.deepInclude(done.comparison, {
          status: "cancelled",
          failure: "Cancelled by Ada.",
          finished_at: cancelled.comparison.finished_at
        })
        assert.isBelow(done.comparison.compared, 60)
        assert.lengthOf(done.results, done.comparison.compared)
        const { candidate, live } = done.comparison.summary
        assert.strictEqual(candidate.input_tokens + live.input_tokens, 40)

        const again = yield* admin.comparisons.cancel({ params: { id } })
        assert.deepStrictEqual(again.comparison.finished_at, cancelled.comparison.finished_at)
        const { entries } = yield* admin.audit_log.list({ query: { target_id: id } })
        assert.deepStrictEqual(
          entries.map(({ action }) => action),
          ["comparison.cancelled", "comparison.created"]
        )
        const refused = yield* Effect.flip(admin.releases.create({ params, payload: { comparison_id: id } }))
        assert.strictEqual(refused._tag, "COMPARISON_UNFINISHED")
        assert.propertyVal(
          refused,
          "detail",
          "The comparison was cancelled, so nothing shows whether its candidate is better. Start another one."
        )
      })
    )
  }
)
