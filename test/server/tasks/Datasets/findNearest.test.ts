import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { service } from "../../../support/service.ts"
import { sortingExamples, createSortingTask, createTeamClients } from "../../../support/tasks.ts"

layer(service(), { excludeTestServices: true })("the nearest example", (it) => {
  it.effect("is that of the very input, else the one whose words overlap most, else the newest", () =>
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

  it.effect("is found among hundreds that share a word, and stays the same when versions come after", () =>
    Effect.gen(function* () {
      const { admin } = yield* createTeamClients("many share")
      const { dataset, params } = yield* createSortingTask(
        admin,
        ...Array.from({ length: 600 }, (_, n) => [`order number${n} about the parcel`, "shipping"] as const),
        ["order number600 about the parcel", "billing"]
      )
      const ask = () =>
        admin.tasks.run({ params, payload: { input: { text: "parcel order number600 please" } } })
      assert.deepStrictEqual((yield* ask()).answer, { category: "billing" })
      const [nearer] = sortingExamples(["parcel order number600 please", "other"])
      yield* admin.datasets.create({ params, payload: { base_dataset_id: dataset.id, examples: [nearer!] } })
      assert.deepStrictEqual((yield* ask()).answer, { category: "billing" })
    })
  )
})
