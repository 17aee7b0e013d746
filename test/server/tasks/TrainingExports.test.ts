import { assert, layer } from "@effect/vitest"
import { Effect, Stream } from "effect"
import { createDesk, tagOf } from "../../support/feedback.ts"
import { service } from "../../support/service.ts"
import { startScriptedServer } from "../../support/scripted.ts"
import { sortingTask } from "../../support/tasks.ts"

const TOKEN = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"

const environment = { COUNTERSIGN_PROVIDER_ALLOW: "127.0.0.0/8" }

/** A dataset with an example of its own, a correction of a run, and a correction that repeats the run's answer. */
const createCorrected = Effect.fnUntraced(function* (organization: string) {
  const desk = yield* createDesk(organization)
  const { admin, correct, params, run, stage } = desk
  for (const [text, category] of [
    ["my invoice", "billing"],
    ["something", "other"]
  ] as const) {
    const { id } = yield* correct(yield* run(text), { category })
    yield* stage(id)
  }
  const { base_dataset_id, feedback_revision } = yield* admin.feedback.previewPromotion({ params, query: {} })
  const { dataset } = yield* admin.feedback.promote({
    params,
    payload: { base_dataset_id, expected_feedback_revision: feedback_revision }
  })
  return { ...desk, dataset }
})

layer(service({ environment }), { excludeTestServices: true })("TrainingExports", (it) => {
  it.effect(
    "an exported chat is what a run sends to the model, with the right answer and no other examples",
    () =>
      Effect.gen(function* () {
        const { admin } = yield* createDesk("chats")
        // The schema of a strict response format is not repeated in the prompt.
        const required = [["category"], ["category", "confidence"]]
        const answer = { category: "other", confidence: 1 }
        for (const answer_schema of required.map((names) => ({
          ...sortingTask.answer_schema,
          required: names
        }))) {
          const model = yield* startScriptedServer([
            { status: 200, body: { choices: [{ message: { content: JSON.stringify(answer) } }] } }
          ])
          const { id: task_id } = yield* admin.tasks.create({
            payload: {
              ...sortingTask,
              answer_schema,
              provider: {
                kind: "openai",
                base_url: `${model.url}/v1`,
                model: "small",
                few_shot: { examples: 0 }
              }
            }
          })
          const input = { text: "where is my parcel" }
          const dataset = yield* admin.datasets.create({
            params: { id: task_id },
            payload: { examples: [{ input, answer }] }
          })
          yield* admin.tasks.run({ params: { id: task_id }, payload: { input } })
          const { messages: sent } = JSON.parse(model.seen[0]?.body ?? "")
          const lines = yield* Stream.runCollect(
            yield* admin.datasets.exportChats({ params: { id: dataset.id }, query: {} })
          )
          assert.deepStrictEqual(lines, [
            { messages: [...sent, { role: "assistant", content: JSON.stringify(answer) }] }
          ])
        }
      })
  )

  it.effect("preference pairs have the wrong answer and its correction, in the form of either trainer", () =>
    Effect.gen(function* () {
      const { admin, dataset, integration } = yield* createCorrected("pairs")
      const params = { id: dataset.id }
      const trl = yield* Stream.runCollect(
        yield* integration.datasets.exportPreferences({ params, query: { form: "trl" } })
      )
      const [pair, ...others] = trl
      assert.lengthOf(others, 0)
      assert.isDefined(pair)
      assert.deepInclude(pair, {
        chosen: [{ role: "assistant", content: `{"category":"billing"}` }],
        rejected: [{ role: "assistant", content: `{"category":"other"}` }]
      })
      const prompt = "prompt" in pair ? pair.prompt : assert.fail("a prompt")
      assert.deepStrictEqual(prompt.at(-1), { role: "user", content: `{"text":"my invoice"}` })
      const openai = yield* Stream.runCollect(yield* admin.datasets.exportPreferences({ params, query: {} }))
      assert.deepStrictEqual(openai, [
        {
          input: { messages: prompt },
          preferred_output: [{ role: "assistant", content: `{"category":"billing"}` }],
          non_preferred_output: [{ role: "assistant", content: `{"category":"other"}` }]
        }
      ])
    })
  )

  it.effect("exports are audited, need their scopes, and show nothing of other organizations and tasks", () =>
    Effect.gen(function* () {
      const { admin, dataset, integration } = yield* createCorrected("scoped")
      const other = yield* createDesk("other")
      const params = { id: dataset.id }
      assert.strictEqual(
        yield* tagOf(integration.datasets.exportChats({ params, query: {} })),
        "INSUFFICIENT_SCOPE"
      )
      const { exportChats, exportPreferences } = other.admin.datasets
      assert.strictEqual(yield* tagOf(exportChats({ params, query: {} })), "NOT_FOUND")
      assert.strictEqual(yield* tagOf(exportPreferences({ params, query: {} })), "NOT_FOUND")
      const elsewhere = yield* admin.tasks.create({ payload: sortingTask })
      const release_id = elsewhere.live_release_id
      assert.strictEqual(
        yield* tagOf(admin.datasets.exportChats({ params, query: { release_id } })),
        "NOT_FOUND"
      )
      yield* Stream.runDrain(yield* admin.datasets.exportChats({ params, query: {} }))
      const { entries } = yield* admin.auditLog.list({ query: { action: "dataset.exported" } })
      assert.deepStrictEqual(
        entries.map(({ detail, target_id }) => [target_id, detail["format"]]),
        [[dataset.id, "chat"]]
      )
    })
  )

  it.effect("exports have no secrets: not in instructions, inputs and answers", () =>
    Effect.gen(function* () {
      const { admin, correct, stage } = yield* createDesk("secrets")
      const { id: task_id } = yield* admin.tasks.create({
        payload: {
          ...sortingTask,
          instructions: `Use ${TOKEN}.`,
          answer_schema: { type: "object", properties: { note: { type: "string" } } }
        }
      })
      const params = { id: task_id }
      const run = yield* admin.tasks.run({
        params,
        payload: { input: { text: `a ${TOKEN}` }, answer: { note: `b ${TOKEN}` } }
      })
      const { id } = yield* correct(run.trace_id, { note: "c" })
      yield* stage(id)
      const { base_dataset_id, feedback_revision } = yield* admin.feedback.previewPromotion({
        params,
        query: {}
      })
      const { dataset } = yield* admin.feedback.promote({
        params,
        payload: { base_dataset_id, expected_feedback_revision: feedback_revision }
      })
      const target = { params: { id: dataset.id }, query: {} }
      const chats = yield* Stream.runCollect(yield* admin.datasets.exportChats(target))
      const pairs = yield* Stream.runCollect(yield* admin.datasets.exportPreferences(target))
      assert.deepStrictEqual([chats.length, pairs.length], [1, 1])
      const text = JSON.stringify([chats, pairs])
      assert.notInclude(text, TOKEN)
      assert.include(text, "b [REDACTED]")
    })
  )
})
