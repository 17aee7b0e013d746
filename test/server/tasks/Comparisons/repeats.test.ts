import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { eventually } from "../../../support/eventually.ts"
import { startModelServer } from "../../../support/model.ts"
import { pointersOf, service } from "../../../support/service.ts"
import { sortingExamples, sortingTask } from "../../../support/tasks.ts"
import { Countersign } from "../../../../src/testing/index.ts"

layer(service({ environment: { COUNTERSIGN_PROVIDER_ALLOW: "127.0.0.0/8" } }), { excludeTestServices: true })(
  "Comparisons › repeats",
  (it) => {
    it.effect("each example is answered several times, which shows the variance of the model itself", () =>
      Effect.gen(function* () {
        const admin = yield* Effect.flatMap(Countersign, (countersign) => countersign.client({}, "repeats"))
        const asked = new Map<string, number>()
        // The candidate is right three times out of four on "moody", and always on "steady"; the live release only on "steady".
        const model = yield* startModelServer(({ instructions, text }) => {
          const key = `${instructions} ${text}`
          const number = asked.get(key) ?? 0
          asked.set(key, number + 1)
          const isRight = text === "steady" || (instructions.startsWith("new") && number % 4 !== 3)
          return { answer: { category: isRight ? "billing" : "other" }, input_tokens: 10, output_tokens: 1 }
        })
        const provider = { kind: "openai", base_url: model.url, model: "moody" } as const
        const task = yield* admin.tasks.create({ payload: { ...sortingTask, instructions: "old", provider } })
        const params = { id: task.id }
        yield* admin.datasets.create({
          params,
          payload: { examples: sortingExamples(["moody", "billing"], ["steady", "billing"]) }
        })
        const candidate = { instructions: "new" }
        const refused = yield* Effect.flip(
          admin.comparisons.create({ params, payload: { candidate, repeats: 4, budget: { max_calls: 7 } } })
        )
        assert.deepStrictEqual(pointersOf(refused), ["#/budget/max_calls"])
        const started = yield* admin.comparisons.create({
          params,
          payload: { candidate, repeats: 4, budget: { max_calls: 16 } }
        })
        const { comparison, results } = yield* eventually(
          admin.comparisons.get({ params: { id: started.comparison.id }, query: {} }),
          (found) => found.comparison.status !== "running"
        )
        assert.deepInclude(comparison, { status: "completed", repeats: 4, compared: 2, failure: null })
        assert.strictEqual(comparison.spent.calls, 16)
        const { summary } = comparison
        assert.deepInclude(summary.candidate, { agreed: 2, agreement: 7 / 8, failed: 0, input_tokens: 80 })
        assert.deepStrictEqual(summary.candidate.repeats, {
          unstable: 1,
          variance: ((3 / 4) * (1 / 4) * (4 / 3)) / 2
        })
        assert.deepInclude(summary.live, { agreed: 1, agreement: 0.5 })
        assert.deepStrictEqual(summary.live.repeats, { unstable: 0, variance: 0 })
        assert.strictEqual(summary.difference.value, 3 / 8)
        assert.deepStrictEqual(
          results.map(({ candidate: side, input, live }) => [
            input?.["text"],
            side.agreed_repeats,
            live.agreed_repeats
          ]),
          [
            ["steady", 4, 4],
            ["moody", 3, 0]
          ]
        )
        // A release decides by all answers.
        const release = yield* admin.releases.create({ params, payload: { comparison_id: comparison.id } })
        assert.strictEqual(release.comparison_id, comparison.id)
      })
    )
  }
)
