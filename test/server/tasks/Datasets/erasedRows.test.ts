import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { ExampleId, OrgId, TaskId } from "../../../../src/domain/Ids.ts"
import { transaction } from "../../../../src/server/store/transaction.ts"
import { deleteExamples, endErased } from "../../../../src/server/tasks/Datasets/erasedRows.ts"
import { TestDatabase } from "../../../support/postgres.ts"

layer(TestDatabase.layerSql, { excludeTestServices: true })("Erased examples", (it) => {
  it.effect("the results of a deleted example are found by it, however many comparisons its task has", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const [org_id, task_id] = [yield* OrgId.generate, yield* TaskId.generate]
      const example = (number: number) => ExampleId.make(`exm_${String(number).padStart(32, "0")}`)
      // Without statistics, as in the first minutes of a table.
      yield* sql`
        INSERT INTO comparison_results
        SELECT ${org_id}, 'cmp_' || comparison, 'exm_' || lpad(example::text, 32, '0'), '{}', '{}'
        FROM generate_series(1, 6000) AS comparison, generate_series(1, 4) AS example
        WHERE example < 3 OR comparison <= 10
      `
      const scans = yield* transaction(
        Effect.andThen(
          deleteExamples(sql, org_id, task_id, [example(3), example(4)]),
          sql`SELECT pg_stat_get_xact_numscans('comparison_results_example'::regclass)::int AS scans`
        )
      )
      assert.deepStrictEqual(scans, [{ scans: 2 }], "one for each example")
      // More than one statement deletes.
      yield* transaction(deleteExamples(sql, org_id, task_id, [example(1)]))
      const left = yield* sql`
        SELECT example_id, count(*)::int AS results FROM comparison_results WHERE org_id = ${org_id} GROUP BY example_id
      `
      assert.deepStrictEqual(left, [{ example_id: example(2), results: 6_000 }])
    })
  )

  it.effect("the tombstones of the version before are ended in pages, and no others", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const org_id = yield* OrgId.generate
      const [task_id, other] = [yield* TaskId.generate, yield* TaskId.generate]
      const insert = (task: TaskId, count: number, until_version: number | null) => sql`
        INSERT INTO erased_examples
        SELECT
          ${org_id}, ${task}, 'exm_' || md5(concat(${until_version}::int, '/', n)), 1, ${until_version}::int,
          convert_to(n || ' of ' || ${task}, 'UTF8'), now()
        FROM generate_series(1, ${count}::int) AS n
      `
      yield* insert(task_id, 1_200, null)
      yield* insert(task_id, 600, 3)
      yield* insert(other, 2, null)
      const pages: Array<number> = []
      const hashes = new Set<string>()
      yield* transaction(
        endErased(sql, org_id, task_id, 7, (page) => {
          pages.push(page.length)
          for (const hash of page) hashes.add(Buffer.from(hash).toString())
        })
      )
      assert.deepStrictEqual(pages, [500, 500, 200])
      assert.strictEqual(hashes.size, 1_200)
      const versions = yield* sql`
        SELECT task_id = ${task_id} AS of_task, until_version, count(*)::int AS examples
        FROM erased_examples
        WHERE org_id = ${org_id}
        GROUP BY 1, 2
        ORDER BY 3
      `
      assert.deepStrictEqual(versions, [
        { of_task: false, until_version: null, examples: 2 },
        { of_task: true, until_version: 3, examples: 600 },
        { of_task: true, until_version: 7, examples: 1_200 }
      ])
    })
  )
})
