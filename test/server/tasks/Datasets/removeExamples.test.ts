import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import type { ExampleId } from "../../../../src/domain/Ids.ts"
import { tagOf } from "../../../support/feedback.ts"
import { pointersOf, service } from "../../../support/service.ts"
import { createSortingTask, createTeamClients, sortingExamples } from "../../../support/tasks.ts"

layer(service(), { excludeTestServices: true })("Removing examples from a dataset", (it) => {
  it.effect(
    "the next version is without the removed examples, and earlier versions and the live release keep them",
    () =>
      Effect.gen(function* () {
        const { admin } = yield* createTeamClients("remove")
        const { dataset, params } = yield* createSortingTask(
          admin,
          ["one", "billing"],
          ["two", "billing"],
          ["three", "shipping"]
        )
        const texts = Effect.fnUntraced(function* (id: typeof dataset.id) {
          const { examples } = yield* admin.datasets.listExamples({ params: { id } })
          return examples.map(({ input }) => input["text"]).toSorted()
        })
        const { examples } = yield* admin.datasets.listExamples({ params: { id: dataset.id } })
        const one = examples.find(({ input }) => input["text"] === "one") ?? assert.fail("an example")
        const second = yield* admin.datasets.create({
          params,
          payload: {
            base_dataset_id: dataset.id,
            // By ID, by input, and one of them twice.
            remove: [one.id],
            remove_inputs: [{ text: "two" }, { text: "one" }],
            examples: sortingExamples(["four", "other"], ["three", "other"])
          }
        })
        assert.deepInclude(second, {
          version: 2,
          example_count: 2,
          examples_added: 1,
          examples_replaced: 1,
          examples_removed: 2,
          examples_repeated: 0
        })
        assert.deepStrictEqual(yield* texts(second.id), ["four", "three"])
        assert.deepStrictEqual(yield* texts(dataset.id), ["one", "three", "two"])
        // The first release answers with the first version.
        const { answer } = yield* admin.tasks.run({ params, payload: { input: { text: "one" } } })
        assert.deepStrictEqual(answer, { category: "billing" })
        // The digest is that of a dataset that never had the removed examples.
        const other = yield* createSortingTask(admin, ["three", "other"], ["four", "other"])
        assert.strictEqual(other.dataset.content_digest, second.content_digest)
        const { entries } = yield* admin.auditLog.list({ query: { action: "dataset.created" } })
        assert.deepInclude(entries.find(({ target_id }) => target_id === second.id)?.detail, { removed: 2 })
        // What was removed can be added again.
        const third = yield* admin.datasets.create({
          params,
          payload: { base_dataset_id: second.id, examples: sortingExamples(["one", "other"]) }
        })
        assert.deepInclude(third, { example_count: 3, examples_added: 1, examples_replaced: 0 })
      })
  )

  it.effect(
    "an example that the base does not have, the last example, and an empty request are refused",
    () =>
      Effect.gen(function* () {
        const { admin } = yield* createTeamClients("refused removals")
        const { dataset, params } = yield* createSortingTask(admin, ["one", "billing"], ["two", "billing"])
        const { admin: stranger } = yield* createTeamClients("owner of another example")
        const theirs = yield* createSortingTask(stranger, ["one", "billing"])
        const { examples } = yield* stranger.datasets.listExamples({ params: { id: theirs.dataset.id } })
        const remove = (texts: ReadonlyArray<string>, ids: ReadonlyArray<ExampleId> = []) =>
          admin.datasets.create({
            params,
            payload: {
              base_dataset_id: dataset.id,
              remove: ids,
              remove_inputs: texts.map((text) => ({ text }))
            }
          })
        const refused = yield* Effect.flip(remove(["one", "three"], [examples[0]!.id]))
        assert.strictEqual(refused._tag, "INVALID_INPUT")
        assert.deepStrictEqual(pointersOf(refused), ["#/remove/0", "#/remove_inputs/1"])
        const all = yield* Effect.flip(remove(["one", "two"]))
        assert.strictEqual(all._tag, "INVALID_INPUT")
        assert.deepStrictEqual(pointersOf(all), ["#/examples"])
        assert.strictEqual(yield* tagOf(remove([])), "INVALID_REQUEST")
        // Nothing was changed.
        const { datasets } = yield* admin.datasets.list({ params })
        assert.lengthOf(datasets, 1)
        const { dataset_id } = yield* admin.tasks.get({ params })
        assert.strictEqual(dataset_id, dataset.id)
        // An example of an earlier version is not in the base.
        const second = yield* remove(["one"])
        const again = admin.datasets.create({
          params,
          payload: { base_dataset_id: second.id, remove_inputs: [{ text: "one" }] }
        })
        assert.strictEqual(yield* tagOf(again), "INVALID_INPUT")
      })
  )
})
