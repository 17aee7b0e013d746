/** Answers the runs of tasks with a provider of the test, in place of a model. */
import { assert, layer } from "@effect/vitest"
import { noUsage } from "countersign/api"
import { Providers } from "countersign/server"
import { Countersign } from "countersign/testing"
import { Effect, Layer } from "effect"

/** Sorts a message by one word. */
const OwnProvider = Layer.succeed(Providers, {
  answer: ({ input }) =>
    Effect.succeed({
      answer: { category: JSON.stringify(input).includes("invoice") ? "billing" : "other" },
      examples: [],
      usage: noUsage,
      calls: []
    })
})

layer(Countersign.layer({ replace: OwnProvider }), { timeout: "60 seconds" })("An own provider", (it) => {
  it.effect("answers the runs of a task", () =>
    Effect.gen(function* () {
      const { tasks } = yield* (yield* Countersign).client()
      const task = yield* tasks.create({
        payload: {
          name: "sort messages",
          input_schema: { type: "object", properties: { text: { type: "string" } } },
          answer_schema: { type: "object", properties: { category: { type: "string" } } }
        }
      })
      const { answer } = yield* tasks.run({
        params: { id: task.id },
        payload: { input: { text: "Where is my invoice?" } }
      })
      assert.deepStrictEqual(answer, { category: "billing" })
    })
  )
})
