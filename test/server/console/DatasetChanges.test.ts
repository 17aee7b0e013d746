import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { Authorized } from "../../../src/api/Authorization.ts"
import { ApiKeys } from "../../../src/server/identity/ApiKeys.ts"
import { DatasetChanges } from "../../../src/server/console/DatasetChanges.ts"
import { Countersign } from "../../../src/testing/index.ts"
import { service } from "../../support/service.ts"

/** Runs an effect as a reviewer of an organization. */
const asReviewer = <A, E, R>(organization: string, effect: Effect.Effect<A, E, R>) =>
  Effect.gen(function* () {
    const { key } = yield* Countersign
    const keys = yield* ApiKeys
    const principal = yield* keys.verify(yield* key({ preset: "reviewer" }, organization))
    return yield* Effect.provideService(effect, Authorized("datasets.read"), principal)
  })

layer(service(), { excludeTestServices: true, timeout: "60 seconds" })("DatasetChanges", (it) => {
  it.effect(
    "differences over one or several versions count additions and replacements, and stay within the organization",
    () =>
      Effect.gen(function* () {
        const { client } = yield* Countersign
        const changes = yield* DatasetChanges
        const sql = yield* SqlClient.SqlClient
        const { datasets, tasks } = yield* client({}, "changes")
        const task = yield* tasks.create({
          payload: { name: "sort", input_schema: { type: "object" }, answer_schema: { type: "object" } }
        })
        const version = (base: string | undefined, examples: ReadonlyArray<readonly [string, number]>) => {
          const [first, ...rest] = examples.map(([text, n]) => ({ input: { text }, answer: { n } }))
          return datasets.create({
            params: { id: task.id },
            payload: {
              ...(base === undefined ? {} : { base_dataset_id: known.get(base)! }),
              examples: [first!, ...rest]
            }
          })
        }
        const known = new Map<string, typeof task.dataset_id>()
        const one = yield* version(undefined, [
          ["a", 1],
          ["b", 1]
        ])
        known.set("one", one.id)
        const two = yield* version("one", [
          ["b", 2],
          ["c", 1]
        ])
        known.set("two", two.id)
        const three = yield* version("two", [["b", 3]])

        const step = yield* asReviewer("changes", changes.between(two.id, one.id))
        assert.deepStrictEqual([step.added, step.replaced, step.removed], [1, 1, 0])
        assert.deepStrictEqual(
          step.changes
            .map(({ after, before }) => [
              after?.input["text"],
              before?.answer["n"] ?? null,
              after?.answer["n"]
            ])
            .toSorted(),
          [
            ["b", 1, 2],
            ["c", null, 1]
          ]
        )
        // An example that changed twice in between counts once.
        const both = yield* asReviewer("changes", changes.between(three.id, one.id))
        assert.deepStrictEqual([both.added, both.replaced, both.removed], [1, 1, 0])
        const same = yield* asReviewer("changes", changes.between(one.id, one.id))
        assert.deepStrictEqual(same.changes, [])
        // A difference larger than the limit of a response is returned alone.
        yield* sql`UPDATE dataset_examples SET bytes = 9 * 1024 * 1024 WHERE task_id = ${task.id}`
        const large = yield* asReviewer("changes", changes.between(two.id, one.id))
        assert.deepStrictEqual([large.added, large.replaced, large.changes.length], [1, 1, 1])
        const foreign = yield* Effect.flip(asReviewer("others", changes.between(two.id, one.id)))
        assert.strictEqual(foreign.code, "NOT_FOUND")
      }).pipe(Effect.orDie)
  )
})
