import { assert, layer } from "@effect/vitest"
import { Effect, Stream } from "effect"
import { pointersOf, service } from "../../../support/service.ts"
import { createTeamClients, sortingTask } from "../../../support/tasks.ts"
import { Organizations } from "../../../../src/server/identity/Organizations.ts"
import { Datasets } from "../../../../src/server/tasks/Datasets.ts"

const token = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"

layer(service(), { excludeTestServices: true })("redactExamples", (it) => {
  it.effect("examples of a request are stored without protected values, and a warning names the fields", () =>
    Effect.gen(function* () {
      const { admin } = yield* createTeamClients("redact examples")
      const task = yield* admin.tasks.create({
        payload: { ...sortingTask, answer_schema: { type: "object" } }
      })
      const params = { id: task.id }
      const created = yield* admin.datasets.create({
        params,
        payload: {
          examples: [
            { input: { text: "plain" }, answer: { token: "session" } },
            { input: { text: `use ${token}` }, answer: { reply: `send ${token} back` } }
          ]
        }
      })
      assert.strictEqual(
        created.redaction_warning,
        "Protected values were removed from #/examples/1/input/text, #/examples/1/answer/reply"
      )
      const { examples } = yield* admin.datasets.listExamples({ params: { id: created.id }, query: {} })
      assert.deepStrictEqual(
        examples.map(({ answer, input }) => [input, answer]),
        [
          [{ text: "use [REDACTED]" }, { reply: "send [REDACTED] back" }],
          [{ text: "plain" }, { token: "session" }]
        ]
      )
      const next = yield* admin.datasets.create({
        params,
        payload: {
          base_dataset_id: created.id,
          examples: [{ input: { text: "other" }, answer: { reply: "yes" } }]
        }
      })
      assert.notProperty(next, "redaction_warning")
    })
  )

  it.effect(
    "an example that does not match the schemas without a protected value is refused with its place",
    () =>
      Effect.gen(function* () {
        const { admin } = yield* createTeamClients("safe examples")
        const input_schema = {
          type: "object",
          properties: { text: { type: "string", pattern: "^(ghp_\\w+|plain)$" } }
        }
        const task = yield* admin.tasks.create({ payload: { ...sortingTask, input_schema } })
        const refused = yield* Effect.flip(
          admin.datasets.create({
            params: { id: task.id },
            payload: { examples: [{ input: { text: token }, answer: { category: "other" } }] }
          })
        )
        assert.strictEqual(refused._tag, "INVALID_INPUT")
        assert.deepStrictEqual(pointersOf(refused), ["#/examples/0/input/text"])
        assert.include(JSON.stringify(refused), "Send an example value in its place")
        assert.notInclude(JSON.stringify(refused), token)
      })
  )

  it.effect("an import stores examples without protected values and counts their lines", () =>
    Effect.gen(function* () {
      const { admin } = yield* createTeamClients("redact lines")
      const task = yield* admin.tasks.create({ payload: sortingTask })
      const org_id = yield* (yield* Organizations).findByName("redact lines")
      const lines = ["plain", `use ${token}`, "other"].map((text) =>
        JSON.stringify({ input: { text }, answer: { category: "other" } })
      )
      const { dataset, redacted } = yield* (yield* Datasets).importLines(
        org_id,
        task.id,
        Stream.fromIterable(lines),
        () => Effect.void
      )
      assert.deepStrictEqual(redacted, { lines: 1, first: [2] })
      const { examples } = yield* admin.datasets.listExamples({ params: { id: dataset.id }, query: {} })
      assert.sameMembers(
        examples.map(({ input }) => input["text"]),
        ["plain", "use [REDACTED]", "other"]
      )
    })
  )
})
