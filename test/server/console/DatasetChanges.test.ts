import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { Authorized } from "../../../src/api/Authorization.ts"
import type { DatasetId } from "../../../src/domain/Ids.ts"
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
            params: { task_id: task.id },
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

  it.effect("examples that share an input are paired one to one, in any number", () =>
    Effect.gen(function* () {
      const { client } = yield* Countersign
      const changes = yield* DatasetChanges
      const sql = yield* SqlClient.SqlClient
      const { datasets, tasks } = yield* client({}, "equals")
      const { id: task_id } = yield* tasks.create({
        payload: { name: "sort", input_schema: { type: "object" }, answer_schema: { type: "object" } }
      })
      /** A version as earlier releases made it: with all examples of one input. */
      const version = Effect.fnUntraced(function* (count: number, n: number, base?: typeof DatasetId.Type) {
        const dataset = yield* datasets.create({
          params: { task_id },
          payload: {
            ...(base === undefined ? {} : { base_dataset_id: base }),
            examples: [{ input: { text: "a" }, answer: { n } }]
          }
        })
        yield* sql`
          INSERT INTO dataset_examples
          SELECT (jsonb_populate_record(e, jsonb_build_object('example_id', 'exm_' || md5(${n} || ' ' || copy)))).*
          FROM dataset_examples AS e, generate_series(2, ${count}::int) AS copy
          WHERE task_id = ${task_id}
            AND first_version = ${dataset.version}
        `
        yield* sql`UPDATE datasets SET example_count = ${count} WHERE dataset_id = ${dataset.id}`
        return dataset
      })
      const two = yield* version(2, 1)
      const one = yield* version(1, 2, two.id)
      const made =
        yield* sql`SELECT detail ->> 'replaced' AS replaced FROM audit_log WHERE target_id = ${one.id}`
      const fewer = yield* asReviewer("equals", changes.between(one.id, two.id))
      assert.deepStrictEqual([fewer.added, fewer.replaced, fewer.removed], [0, 1, 1])
      assert.deepStrictEqual(made, [{ replaced: String(fewer.replaced) }])
      const many = yield* version(2_000, 3, one.id)
      const again = yield* version(2_000, 4, many.id)
      const more = yield* asReviewer("equals", changes.between(many.id, one.id))
      assert.deepStrictEqual([more.added, more.replaced, more.removed], [1_999, 1, 0])
      // A join of all pairs would have four million rows.
      const all = yield* asReviewer("equals", changes.between(again.id, many.id))
      assert.deepStrictEqual([all.added, all.replaced, all.removed], [0, 2_000, 0])
    }).pipe(Effect.orDie)
  )
})
