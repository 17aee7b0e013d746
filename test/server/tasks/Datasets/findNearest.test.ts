import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { service } from "../../../support/service.ts"
import { sortingExamples, createSortingTask, createTeamClients } from "../../../support/tasks.ts"

layer(service(), { excludeTestServices: true })("findNearest", (it) => {
  it.effect(
    "the nearest example has exactly this input, else the highest word overlap, else is the newest",
    () =>
      Effect.gen(function* () {
        const { admin } = yield* createTeamClients("nearest")
        const { params } = yield* createSortingTask(
          admin,
          ["where is my parcel", "shipping"],
          ["my parcel is broken and my invoice is wrong and nobody answers", "other"],
          ["the invoice is wrong", "billing"]
        )
        const ask = (text: string) =>
          Effect.map(
            admin.tasks.run({ params, payload: { input: { text } } }),
            ({ answer }) => answer["category"]
          )
        assert.strictEqual(yield* ask("where is my parcel"), "shipping")
        assert.strictEqual(yield* ask("WHERE, please, is the parcel?"), "shipping")
        assert.strictEqual(yield* ask("The invoice is all wrong!"), "billing")
        assert.strictEqual(yield* ask("nobody answers"), "other")
        assert.strictEqual(yield* ask("謝謝"), "billing")
        assert.strictEqual(yield* ask(""), "billing")
      })
  )

  it.effect(
    "the nearest of hundreds that share a word is found, and a later version does not change it",
    () =>
      Effect.gen(function* () {
        const { admin } = yield* createTeamClients("many share")
        const { dataset, params } = yield* createSortingTask(
          admin,
          ...Array.from(
            { length: 600 },
            (_, n) => [`order number${n} about the parcel`, "shipping"] as const
          ),
          ["order number600 about the parcel", "billing"]
        )
        const ask = () =>
          admin.tasks.run({ params, payload: { input: { text: "parcel order number600 please" } } })
        assert.deepStrictEqual((yield* ask()).answer, { category: "billing" })
        const [nearer] = sortingExamples(["parcel order number600 please", "other"])
        yield* admin.datasets.create({
          params,
          payload: { base_dataset_id: dataset.id, examples: [nearer!] }
        })
        assert.deepStrictEqual((yield* ask()).answer, { category: "billing" })
      })
  )
})
