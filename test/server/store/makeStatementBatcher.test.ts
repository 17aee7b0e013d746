import { assert, layer } from "@effect/vitest"
import { Effect, Result } from "effect"
import { SqlClient, SqlError } from "effect/sql"
import { OrgId } from "../../../src/domain/Ids.ts"
import { makeStatementBatcher } from "../../../src/server/store/makeStatementBatcher.ts"
import { textArray } from "../../../src/server/store/pgArrays.ts"
import { transaction } from "../../../src/server/store/transaction.ts"
import { TestDatabase } from "../../support/postgres.ts"

layer(TestDatabase.layerSql, { excludeTestServices: true })("makeStatementBatcher", (it) => {
  /** Inserts organizations in batches. The first batch fails with this SQLSTATE, if any. */
  const setUp = Effect.fnUntraced(function* (code?: string) {
    const sql = yield* SqlClient.SqlClient
    const batches: Array<number> = []
    const insert = yield* makeStatementBatcher({
      sql,
      maxBatch: 10,
      organizationOf: (id: OrgId) => id,
      run: (ids: ReadonlyArray<OrgId>) => {
        batches.push(ids.length)
        return code !== undefined && batches.length === 1
          ? new SqlError.SqlError({ reason: new SqlError.UnknownError({ cause: { code } }) })
          : sql`
              INSERT INTO organizations (org_id, name, created_at)
              SELECT id, id, now()
              FROM unnest(${textArray(ids)}::text[]) AS given (id)
              RETURNING org_id
            `
      }
    })
    const exists = (id: OrgId) =>
      Effect.map(sql`SELECT 1 FROM organizations WHERE org_id = ${id}`, (rows) => rows.length > 0)
    return { batches, exists, insert }
  })

  it.effect("a write in an open transaction is rolled back with it, and concurrent ones are not", () =>
    Effect.gen(function* () {
      const { batches, exists, insert } = yield* setUp()
      const [inside, outside] = [yield* OrgId.generate, yield* OrgId.generate]
      yield* Effect.all(
        [Effect.exit(transaction(Effect.andThen(insert(inside), Effect.fail("no")))), insert(outside)],
        { concurrency: 2 }
      )
      assert.isFalse(yield* exists(inside))
      assert.isTrue(yield* exists(outside))
      assert.deepStrictEqual(batches, [1, 1])
    })
  )

  it.effect.each([
    ["57P01", "all calls of the batch fail, and none is repeated", ["Failure", "Failure"], [2]],
    ["23514", "each runs by itself", ["Success", "Success"], [2, 1, 1]]
  ] as const)("after a batch failed with %s, %s", ([code, , results, sizes]) =>
    Effect.gen(function* () {
      const { batches, insert } = yield* setUp(code)
      const ids = [yield* OrgId.generate, yield* OrgId.generate]
      const done = yield* Effect.forEach(ids, (id) => Effect.result(insert(id)), { concurrency: 2 })
      assert.deepStrictEqual(
        done.map((result) => (Result.isSuccess(result) ? "Success" : "Failure")),
        [...results]
      )
      assert.deepStrictEqual(batches, [...sizes])
    })
  )
})
