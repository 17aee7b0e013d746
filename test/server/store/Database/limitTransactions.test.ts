import { assert, layer } from "@effect/vitest"
import { PgClient } from "@effect/sql-pg"
import { Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import * as Database from "../../../../src/server/store/Database.ts"
import { transactionCounts } from "../../../../src/server/store/Database/limitTransactions.ts"
import { atomic } from "../../../../src/server/store/transaction.ts"
import { TestDatabase } from "../../../support/postgres.ts"

layer(TestDatabase.layerSql, { excludeTestServices: true })("transactionCounts", (it) => {
  it.effect(
    "a transaction counts for its client and the clients that share its limits, and for no other",
    () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const built = yield* Layer.build(Layer.fresh(Database.layerDedicatedPool(1)))
        const dedicated = Context.get(built, PgClient.PgClient)
        const { url } = yield* TestDatabase
        const other = Context.get(yield* Layer.build(Layer.fresh(Database.layer({ url }))), PgClient.PgClient)
        const during = yield* atomic(dedicated)(
          Effect.sync(() => [sql, dedicated, other].map(transactionCounts))
        )
        assert.deepStrictEqual(during, [
          { waiting: 0, open: 1 },
          { waiting: 0, open: 1 },
          { waiting: 0, open: 0 }
        ])
        assert.deepStrictEqual(transactionCounts(sql), { waiting: 0, open: 0 })
      })
  )

  it.effect("a savepoint does not count beside its transaction", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const during = yield* atomic(sql)(atomic(sql)(Effect.sync(() => transactionCounts(sql))))
      assert.deepStrictEqual(during, { waiting: 0, open: 1 })
    })
  )
})
