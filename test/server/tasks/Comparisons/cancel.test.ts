import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { eventually } from "../../../support/eventually.ts"
import { startModelServer } from "../../../support/model.ts"
import { startScriptedServer } from "../../../support/scripted.ts"
import { service } from "../../../support/service.ts"
import { sortingExamples, sortingTask, createTeamClients } from "../../../support/tasks.ts"

layer(service({ environment: { COUNTERSIGN_PROVIDER_ALLOW: "127.0.0.0/8" } }), { excludeTestServices: true })(
  "Comparisons › cancel",
  (it) => {
    it.effect(
      "a cancelled comparison aborts its calls at once, and keeps what it has and what it spent",
      () =>
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
              provider: { kind: "openai", base_url: model.url, model: "small", timeout_seconds: 120 }
            }
          })
          const params = { id: task.id }
          const texts = Array.from({ length: 60 }, (_, index) => [`message ${index}`, "billing"] as const)
          const [first, ...others] = sortingExamples(...texts)
          yield* admin.datasets.create({ params, payload: { examples: [first!, ...others] } })
          // Of these answers at most four are for examples in progress, so five examples at least are answered by both sides.
          model.silentAfter(15)
          const { comparison } = yield* admin.comparisons.create({ params, payload: {} })
          const { id } = comparison
          yield* model.silent

          const cancelled = yield* admin.comparisons.cancel({ params: { id } })
          assert.deepInclude(cancelled.comparison, { status: "cancelled", failure: "Cancelled by Ada." })
          assert.isNotNull(cancelled.comparison.finished_at)
          const done = yield* eventually(
            reviewer.comparisons.get({ params: { id }, query: {} }),
            (found) => found.comparison.compared > 0
          )
          assert.deepInclude(done.comparison, {
            status: "cancelled",
            failure: "Cancelled by Ada.",
            finished_at: cancelled.comparison.finished_at
          })
          assert.isAtLeast(done.comparison.compared, 5)
          assert.isAtMost(done.comparison.compared, 7)
          assert.lengthOf(done.results, done.comparison.compared)
          const { candidate, live } = done.comparison.summary
          assert.strictEqual(candidate.input_tokens + live.input_tokens, done.comparison.compared * 20)
          // The calls that were aborted too, with their prompts.
          assert.strictEqual(done.comparison.spent.calls, model.asked.length)
          assert.isAbove(done.comparison.spent.input_tokens, 150)

          const again = yield* admin.comparisons.cancel({ params: { id } })
          assert.deepStrictEqual(again.comparison.finished_at, cancelled.comparison.finished_at)
          const { entries } = yield* admin.auditLog.list({ query: { target_id: id } })
          assert.deepStrictEqual(
            entries.map(({ action }) => action),
            ["comparison.cancelled", "comparison.created"]
          )
          const refused = yield* Effect.flip(
            admin.releases.create({ params, payload: { comparison_id: id } })
          )
          assert.strictEqual(refused._tag, "COMPARISON_UNFINISHED")
          assert.propertyVal(
            refused,
            "detail",
            "The comparison was cancelled, so nothing shows whether its candidate is better. Start another one."
          )
        })
    )

    it.effect("cancelling aborts a judge that does not answer", () =>
      Effect.gen(function* () {
        const { admin, reviewer } = yield* createTeamClients("cancel a judge")
        const model = yield* startModelServer(() => ({
          answer: { category: "other" },
          input_tokens: 10,
          output_tokens: 1
        }))
        const judge = yield* startScriptedServer(["never"])
        const provider = { kind: "openai", model: "small", timeout_seconds: 120 } as const
        const task = yield* admin.tasks.create({
          payload: { ...sortingTask, provider: { ...provider, base_url: model.url } }
        })
        const params = { id: task.id }
        const [example] = sortingExamples(["a message", "billing"])
        yield* admin.datasets.create({ params, payload: { examples: [example!] } })
        const { comparison } = yield* admin.comparisons.create({
          params,
          payload: { judge: { provider: { ...provider, base_url: judge.url } } }
        })
        const { id } = comparison
        yield* Effect.promise(() => judge.arrived(2))
        yield* admin.comparisons.cancel({ params: { id } })
        const done = yield* eventually(
          reviewer.comparisons.get({ params: { id }, query: {} }),
          (found) => found.comparison.spent.calls > 0
        )
        assert.deepInclude(done.comparison, { status: "cancelled", compared: 0 })
        assert.strictEqual(done.comparison.spent.calls, 4)
        assert.strictEqual(done.comparison.spent.output_tokens, 2)
      })
    )
  }
)
