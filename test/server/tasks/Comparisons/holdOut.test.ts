import { assert, layer } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import type { ComparisonDetail, NewComparison } from "../../../../src/api/Comparisons.ts"
import type { ClientCalls } from "../../../../src/client/Client.ts"
import type { ComparisonResult } from "../../../../src/domain/tasks/Comparison.ts"
import type { DatasetId, ExampleId, TaskId } from "../../../../src/domain/Ids.ts"
import { SqlClient } from "effect/sql"
import { transaction } from "../../../../src/server/store/transaction.ts"
import { completed } from "../../../support/deletion.ts"
import { eventually, waitForBlockedStatements } from "../../../support/eventually.ts"
import { startLearningModel } from "../../../../src/cli/demo/learningModel.ts"
import { pointersOf, service } from "../../../support/service.ts"
import { createSortingTask, createTeamClients, sortingExamples, sortingTask } from "../../../support/tasks.ts"

const messages = [
  ["where is my parcel", "shipping"],
  ["where is my letter", "shipping"],
  ["the refund is missing", "billing"],
  ["the refund is late", "billing"],
  ["hello there", "other"]
] as const

const textOf = ({ input }: ComparisonResult): string =>
  typeof input?.["text"] === "string" ? input["text"] : ""

/** Compares a candidate with the live release, and returns the completed comparison with its results. */
const compare = Effect.fnUntraced(function* (
  admin: ClientCalls,
  params: { readonly id: TaskId },
  payload: NewComparison
) {
  const { comparison } = yield* admin.comparisons.create({ params, payload })
  return yield* eventually(
    admin.comparisons.get({ params: { id: comparison.id }, query: {} }),
    (found) => found.comparison.status === "completed"
  )
})

layer(service({ environment: { COUNTERSIGN_PROVIDER_ALLOW: "127.0.0.0/8" } }), { excludeTestServices: true })(
  "Comparisons › hold_out",
  (it) => {
    it.effect(
      "a benchmark of another task is compared, and refused with the count if a side sees its inputs",
      () =>
        Effect.gen(function* () {
          const { admin } = yield* createTeamClients("benchmark")
          const { dataset, params } = yield* createSortingTask(admin, ...messages)
          const fixed = yield* createSortingTask(
            admin,
            ["where is my postcard", "shipping"],
            ["the refund is small", "billing"],
            ["good evening", "other"]
          )
          const hold_out = { kind: "benchmark", dataset_id: fixed.dataset.id } as const
          const { comparison, results } = yield* compare(admin, params, { hold_out })
          assert.deepStrictEqual(comparison.hold_out, { ...hold_out, task_id: fixed.task.id })
          assert.deepInclude(comparison, { dataset_id: fixed.dataset.id, example_count: 3, compared: 3 })
          assert.sameMembers(results.map(textOf), [
            "where is my postcard",
            "the refund is small",
            "good evening"
          ])
          assert.isTrue(results.every(({ origin }) => origin === "made"))
          assert.isAtLeast(comparison.summary.candidate.agreed, 2)

          // A correction of one of its inputs enters the task's dataset.
          const next = yield* admin.datasets.create({
            params,
            payload: {
              base_dataset_id: dataset.id,
              examples: sortingExamples(["good evening", "other"], ["good night", "other"])
            }
          })
          const refused = yield* Effect.flip(admin.comparisons.create({ params, payload: { hold_out } }))
          assert.strictEqual(refused._tag, "INVALID_COMPARISON")
          assert.deepStrictEqual(pointersOf(refused), ["#/hold_out/dataset_id"])
          assert.include(JSON.stringify(refused), "has 1 inputs that the dataset")
          // The earlier version does not have it.
          yield* compare(admin, params, { hold_out, candidate: { dataset_id: dataset.id } })

          const own = yield* Effect.flip(
            admin.comparisons.create({
              params,
              payload: { hold_out: { kind: "benchmark", dataset_id: next.id } }
            })
          )
          assert.include(JSON.stringify(own), "own dataset")
          const other = yield* admin.tasks.create({
            payload: { ...sortingTask, answer_schema: { type: "object", properties: { category: {} } } }
          })
          const unlike = yield* admin.datasets.create({
            params: { id: other.id },
            payload: { examples: sortingExamples(["hello", "other"]) }
          })
          const refusedUnlike = yield* Effect.flip(
            admin.comparisons.create({
              params,
              payload: { hold_out: { kind: "benchmark", dataset_id: unlike.id } }
            })
          )
          assert.include(JSON.stringify(refusedUnlike), "other schemas")

          // With the benchmark's task go its inputs, and what was answered to them.
          const { id } = yield* admin.tasks.remove({ params: { id: fixed.task.id } })
          yield* completed(admin, id)
          const sql = yield* SqlClient.SqlClient
          const left = yield* sql`SELECT 1 FROM comparison_results WHERE comparison_id = ${comparison.id}`
          assert.lengthOf(left, 0)
          const kept = yield* admin.comparisons.get({ params: { id: comparison.id }, query: {} })
          assert.deepStrictEqual(kept.results, [])
          assert.strictEqual(kept.comparison.compared, 3)
        })
    )

    it.effect(
      "with a version of a benchmark go the answers of other tasks to it, and of no other version",
      () =>
        Effect.gen(function* () {
          const { admin } = yield* createTeamClients("benchmark version")
          const { params } = yield* createSortingTask(admin, ...messages)
          const fixed = yield* createSortingTask(admin, ["where is my postcard", "shipping"])
          const derive = (base_dataset_id: DatasetId, text: string) =>
            admin.datasets.create({
              params: fixed.params,
              payload: { base_dataset_id, examples: sortingExamples([text, "other"]) }
            })
          const second = yield* derive(fixed.dataset.id, "good evening")
          yield* derive(second.id, "good night")
          const over = (dataset_id: DatasetId) =>
            compare(admin, params, { hold_out: { kind: "benchmark", dataset_id } })
          const first = yield* over(fixed.dataset.id)
          const deleted = yield* over(second.id)
          assert.lengthOf(deleted.results, 2)

          // The third version still has its examples.
          const { id } = yield* admin.datasets.remove({ params: { id: second.id } })
          yield* completed(admin, id)
          const kept = yield* admin.comparisons.get({ params: { id: deleted.comparison.id }, query: {} })
          assert.deepStrictEqual(kept, { ...deleted, results: [] })
          const sql = yield* SqlClient.SqlClient
          assert.lengthOf(
            yield* sql`SELECT 1 FROM comparison_results WHERE comparison_id = ${deleted.comparison.id}`,
            0
          )
          const other = yield* admin.comparisons.get({ params: { id: first.comparison.id }, query: {} })
          assert.deepStrictEqual(other, first)
        })
    )

    it.effect.each(["organizations", "tasks"])(
      "a benchmark that is deleted while the comparison waits for a lock on %s is not found",
      (table) =>
        Effect.gen(function* () {
          const { admin } = yield* createTeamClients(`deleted benchmark ${table}`)
          const { params } = yield* createSortingTask(admin, ...messages)
          const fixed = yield* createSortingTask(admin, ["where is my postcard", "shipping"])
          const hold_out = { kind: "benchmark", dataset_id: fixed.dataset.id } as const
          const sql = yield* SqlClient.SqlClient
          const creating = yield* transaction(
            Effect.gen(function* () {
              yield* table === "tasks"
                ? sql`SELECT 1 FROM tasks WHERE task_id = ${fixed.task.id} FOR NO KEY UPDATE`
                : sql`
                  SELECT 1
                  FROM organizations
                  WHERE org_id = (SELECT org_id FROM tasks WHERE task_id = ${fixed.task.id})
                  FOR NO KEY UPDATE
                `
              const creating = yield* Effect.forkDetach(
                Effect.flip(admin.comparisons.create({ params, payload: { hold_out } }))
              )
              yield* waitForBlockedStatements(1)
              yield* sql`DELETE FROM datasets WHERE dataset_id = ${fixed.dataset.id}`
              return creating
            })
          )
          const refused = yield* Fiber.join(creating)
          assert.strictEqual(refused._tag, "NOT_FOUND")
          assert.deepStrictEqual(pointersOf(refused), ["#/hold_out/dataset_id"])
        })
    )

    it.effect(
      "by default no example is answered from itself, and a comparison without a hold-out says so",
      () =>
        Effect.gen(function* () {
          const { admin } = yield* createTeamClients("leave one out")
          const { params } = yield* createSortingTask(admin, ...messages)
          const honest = yield* compare(admin, params, {})
          assert.deepStrictEqual(honest.comparison.hold_out, { kind: "leave_one_out" })
          // The parcel is answered from the letter, and one refund from the other; nothing is like the greeting.
          assert.strictEqual(honest.comparison.summary.candidate.agreed, 4)
          for (const { candidate, example_id, live } of honest.results) {
            for (const { examples } of [candidate, live]) {
              assert.lengthOf(examples, 1)
              assert.notStrictEqual(examples[0]?.id, example_id)
            }
          }
          const leaky = yield* compare(admin, params, { hold_out: { kind: "none" } })
          assert.deepStrictEqual(leaky.comparison.hold_out, { kind: "none" })
          assert.strictEqual(leaky.comparison.summary.candidate.agreement, 1)
          assert.isTrue(
            leaky.results.every(({ candidate, example_id }) => candidate.examples[0]?.id === example_id)
          )
        })
    )

    it.effect("the same input in an older version is held out as well", () =>
      Effect.gen(function* () {
        const { admin } = yield* createTeamClients("older version")
        const { dataset, params } = yield* createSortingTask(admin, ...messages)
        const [corrected] = sortingExamples(["hello there", "billing"])
        yield* admin.datasets.create({
          params,
          payload: { base_dataset_id: dataset.id, examples: [corrected!] }
        })
        const { results } = yield* compare(admin, params, {})
        const greeting = results.find(({ input }) => input?.["text"] === "hello there")
        // The live release answers from the first version, which has the input under another ID.
        assert.isBelow(greeting?.live.examples[0]?.score ?? 1, 1)
        assert.isBelow(greeting?.candidate.examples[0]?.score ?? 1, 1)
      })
    )

    it.effect(
      "with a split, only the test part is compared, and prompts have examples of the other part only",
      () =>
        Effect.gen(function* () {
          const { admin } = yield* createTeamClients("split")
          const model = yield* startLearningModel
          const task = yield* admin.tasks.create({
            payload: {
              ...sortingTask,
              provider: { kind: "openai", base_url: model.url, model: "small", few_shot: { examples: 50 } }
            }
          })
          const params = { id: task.id }
          const [first, ...others] = sortingExamples(
            ...Array.from({ length: 30 }, (_, n) => [`message ${n} about the parcel`, "shipping"] as const)
          )
          yield* admin.datasets.create({ params, payload: { examples: [first!, ...others] } })
          const { comparison, results } = yield* compare(admin, params, {
            hold_out: { kind: "split", test_share: 0.5 }
          })
          assert.deepStrictEqual(comparison.hold_out, { kind: "split", test_share: 0.5, seed: 0 })
          assert.strictEqual(comparison.compared, comparison.example_count)
          assert.isAbove(comparison.example_count, 3)
          assert.isBelow(comparison.example_count, 27)
          assert.lengthOf(results, comparison.example_count)
          const tested = results.map(textOf)
          assert.lengthOf(model.prompts, 2 * tested.length)
          for (const { examples } of model.prompts) {
            assert.lengthOf(examples, 30 - tested.length)
            assert.isFalse(examples.some(({ text }) => tested.includes(text)))
          }
          const again = yield* compare(admin, params, { hold_out: { kind: "split", test_share: 0.5 } })
          assert.sameMembers(again.results.map(textOf), tested)
        }).pipe(Effect.scoped)
    )

    it.effect("a split that leaves a part empty is refused with the pointer of its share", () =>
      Effect.gen(function* () {
        const { admin } = yield* createTeamClients("empty part")
        const { params } = yield* createSortingTask(admin, ["hello", "other"])
        const refused = yield* Effect.flip(
          admin.comparisons.create({ params, payload: { hold_out: { kind: "split" } } })
        )
        assert.strictEqual(refused._tag, "INVALID_COMPARISON")
        assert.deepStrictEqual(pointersOf(refused), ["#/hold_out/test_share"])
      })
    )

    it.effect("results are listed by verdict: wins, regressions and the others, in pages", () =>
      Effect.gen(function* () {
        const { admin } = yield* createTeamClients("verdicts")
        const { dataset, params } = yield* createSortingTask(
          admin,
          ...Array.from({ length: 12 }, (_, n) => [`m${n}`, n < 9 ? "other" : "billing"] as const)
        )
        // Five inputs have another answer from now on; the live release knows the old ones.
        const [first, ...others] = sortingExamples(
          ...Array.from({ length: 5 }, (_, n) => [`m${n}`, "billing"] as const)
        )
        const next = yield* admin.datasets.create({
          params,
          payload: { base_dataset_id: dataset.id, examples: [first!, ...others] }
        })
        const { comparison } = yield* compare(admin, params, {
          hold_out: { kind: "none" },
          candidate: { dataset_id: next.id }
        })
        const list = Effect.fnUntraced(function* (
          id: typeof comparison.id,
          verdict: "win" | "regression" | "both_agree" | "neither_agrees"
        ) {
          const texts: Array<unknown> = []
          let cursor: ExampleId | null = null
          do {
            const page: ComparisonDetail = yield* admin.comparisons.get({
              params: { id },
              query: { verdict, limit: 2, ...(cursor === null ? {} : { cursor }) }
            })
            texts.push(...page.results.map(({ input }) => input?.["text"]))
            cursor = page.next_cursor
          } while (cursor !== null)
          return texts
        })
        assert.sameMembers(yield* list(comparison.id, "win"), ["m0", "m1", "m2", "m3", "m4"])
        assert.lengthOf(yield* list(comparison.id, "both_agree"), 7)
        assert.deepStrictEqual(yield* list(comparison.id, "regression"), [])
        assert.deepStrictEqual(yield* list(comparison.id, "neither_agrees"), [])
      })
    )
  }
)
