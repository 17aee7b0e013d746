import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { startLearningModel } from "../../../../src/cli/demo/learningModel.ts"
import type { ClientCalls } from "../../../../src/client/Client.ts"
import type { DatasetId, TaskId } from "../../../../src/domain/Ids.ts"
import type { NewProvider } from "../../../../src/domain/tasks/Provider.ts"
import { eventually } from "../../../support/eventually.ts"
import { service } from "../../../support/service.ts"
import { createTeamClients, sortingExamples, sortingTask } from "../../../support/tasks.ts"

const messages = [
  ["where is my parcel", "shipping"],
  ["where is the letter that you sent", "shipping"],
  ["the refund is missing", "billing"],
  ["the refund is late", "billing"],
  ["hello there", "other"]
] as const

/** Creates a task with a learning model and a dataset. */
const learningTask = Effect.fnUntraced(function* (organization: string, settings: object = {}) {
  const { admin, reviewer } = yield* createTeamClients(organization)
  const model = yield* startLearningModel
  const provider: NewProvider = { kind: "openai", base_url: model.url, model: "small", ...settings }
  const task = yield* admin.tasks.create({ payload: { ...sortingTask, provider } })
  const params = { id: task.id }
  const [first, ...others] = sortingExamples(...messages)
  const dataset = yield* admin.datasets.create({ params, payload: { examples: [first!, ...others] } })
  const ask = (text: string) => admin.tasks.run({ params, payload: { input: { text } } })
  return { admin, reviewer, model, task, params, dataset, ask }
})

/** Compares the newest dataset version with the live release, and releases it. */
const release = Effect.fnUntraced(function* (
  admin: ClientCalls,
  params: { readonly id: TaskId },
  dataset_id: DatasetId
) {
  const { comparison } = yield* admin.comparisons.create({ params, payload: { candidate: { dataset_id } } })
  const finished = yield* eventually(
    admin.comparisons.get({ params: { id: comparison.id }, query: {} }),
    ({ comparison: { status } }) => status === "completed"
  )
  yield* admin.releases.create({ params, payload: { comparison_id: comparison.id } })
  return finished
})

layer(service({ environment: { COUNTERSIGN_PROVIDER_ALLOW: "127.0.0.0/8" } }), { excludeTestServices: true })(
  "promptExamples",
  (it) => {
    it.effect("a released correction makes the model answer similar inputs right", () =>
      Effect.gen(function* () {
        const { admin, ask, dataset, model, params, reviewer } = yield* learningTask("learning")
        const wrong = yield* ask("my invoice is double unpaid")
        assert.deepStrictEqual(wrong.answer, { category: "other" })

        const feedback = yield* admin.feedback.create({
          payload: { inference_log_id: wrong.trace_id, score: -1, correction: { category: "billing" } }
        })
        yield* reviewer.feedback.stage({ params: { id: feedback.id } })
        const preview = yield* admin.feedback.previewPromotion({ params, query: {} })
        const { dataset: next } = yield* admin.feedback.promote({
          params,
          payload: { base_dataset_id: dataset.id, expected_feedback_revision: preview.feedback_revision }
        })
        const before = yield* ask("the invoice is double unpaid")
        assert.deepStrictEqual(before.answer, { category: "other" }, "it is not released yet")
        yield* release(admin, params, next.id)
        const after = yield* ask("the invoice is double unpaid")
        assert.deepStrictEqual(after.answer, { category: "billing" })

        // The run names its examples, nearest first; the prompt has them nearest last.
        const { items } = yield* admin.datasets
          .listExamples({ params: { id: next.id }, query: {} })
          .pipe(Effect.map(({ examples }) => ({ items: examples })))
        const promoted = items.find(({ input }) => input["text"] === "my invoice is double unpaid")
        assert.strictEqual(after.examples[0]?.id, promoted?.id)
        assert.isTrue(after.examples.every(({ score }) => score > 0))
        const prompt = model.prompts.at(-1)
        assert.deepStrictEqual(prompt?.examples.at(-1), {
          text: "my invoice is double unpaid",
          category: "billing"
        })
        assert.strictEqual(prompt?.text, "the invoice is double unpaid")
        const sql = yield* SqlClient.SqlClient
        const [logged] = yield* sql`SELECT examples FROM runs WHERE trace_id = ${after.trace_id}`
        assert.deepStrictEqual(logged, { examples: after.examples })
      }).pipe(Effect.scoped)
    )

    it.effect("in a comparison, an example is never in its own prompt", () =>
      Effect.gen(function* () {
        const { admin, dataset, model, params } = yield* learningTask("no leak")
        const { comparison } = yield* release(admin, params, dataset.id)
        assert.lengthOf(model.prompts, 2 * messages.length)
        for (const { examples, text } of model.prompts) {
          assert.isAtLeast(examples.length, 1)
          assert.notInclude(
            examples.map((example) => example.text),
            text
          )
        }
        const { results } = yield* admin.comparisons.get({ params: { id: comparison.id }, query: {} })
        for (const { candidate, example_id, live } of results) {
          for (const { examples } of [candidate, live]) {
            assert.isAtLeast(examples.length, 1)
            assert.notInclude(
              examples.map(({ id }) => id),
              example_id
            )
          }
        }
        // Only the two refunds are near each other, and "other" is always answered.
        assert.strictEqual(comparison.summary?.candidate.agreed, 3)
      }).pipe(Effect.scoped)
    )

    it.effect(
      "the number and the size of the examples are limited, and without them the prompt is as before",
      () =>
        Effect.gen(function* () {
          const few = yield* learningTask("few", { few_shot: { examples: 2 } })
          const { examples } = yield* few.ask("the refund is very late")
          assert.lengthOf(examples, 2)
          assert.deepStrictEqual(
            few.model.prompts[0]?.examples.map(({ text }) => text),
            ["the refund is missing", "the refund is late"]
          )
          // 15 tokens are 60 bytes: one example of some 55 bytes.
          const small = yield* learningTask("small", { few_shot: { max_tokens: 15 } })
          assert.lengthOf((yield* small.ask("the refund is very late")).examples, 1)
          const none = yield* learningTask("none", { few_shot: { examples: 0 } })
          assert.deepStrictEqual((yield* none.ask("the refund is late")).examples, [])
          assert.deepStrictEqual(none.model.prompts[0]?.examples, [])
          assert.include(none.model.prompts[0]?.instructions, "The user's message is the input, as JSON.")
        }).pipe(Effect.scoped)
    )

    it.effect("only near examples are sent, and without any, one that shows the form", () =>
      Effect.gen(function* () {
        const { ask, model } = yield* learningTask("only near")
        const { examples } = yield* ask("謝謝")
        assert.deepStrictEqual(
          examples.map(({ score }) => score),
          [0]
        )
        assert.deepStrictEqual(model.prompts.at(-1)?.examples, [{ text: "hello there", category: "other" }])
        yield* ask("letters")
        assert.deepStrictEqual(
          model.prompts.at(-1)?.examples.map(({ text }) => text),
          ["where is the letter that you sent"]
        )
      }).pipe(Effect.scoped)
    )

    it.effect("the instructions of a prompt have the values of the input", () =>
      Effect.gen(function* () {
        const { admin } = yield* createTeamClients("variables in prompts")
        const model = yield* startLearningModel
        const task = yield* admin.tasks.create({
          payload: {
            ...sortingTask,
            instructions: "Sort this: {{input.text}}",
            provider: { kind: "openai", base_url: model.url, model: "small" }
          }
        })
        const text = "hello {{input.text}} $&"
        yield* admin.tasks.run({ params: { id: task.id }, payload: { input: { text } } })
        assert.include(model.prompts[0]?.instructions, `Sort this: ${text}\n\n`)
      }).pipe(Effect.scoped)
    )

    it.effect("a logged answer has no examples", () =>
      Effect.gen(function* () {
        const { admin, params } = yield* learningTask("logged")
        const logged = yield* admin.tasks.run({
          params,
          payload: { input: { text: "the refund is late" }, answer: { category: "billing" } }
        })
        assert.deepStrictEqual(logged.examples, [])
      }).pipe(Effect.scoped)
    )
  }
)
