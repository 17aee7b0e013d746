import { assert, layer } from "@effect/vitest"
import { PgClient } from "@effect/sql-pg"
import { Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import * as Database from "../../../../src/server/store/Database.ts"
import {
  atomic,
  atomicWithoutRetry,
  transactionCounts
} from "../../../../src/server/store/Database/transaction.ts"
import { TestDatabase } from "../../../support/postgres.ts"

layer(TestDatabase.layerSql, { excludeTestServices: true })("a transaction", (it) => {
  const deadlock = Effect.flatMap(SqlClient.SqlClient, (sql) =>
    sql.unsafe(`DO $$ BEGIN RAISE EXCEPTION 'lost' USING ERRCODE = 'deadlock_detected'; END $$`)
  )

  it.effect("that lost a race is run again, unless what it takes from gives everything once", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      let runs = 0
      const losing = Effect.andThen(
        Effect.sync(() => runs++),
        deadlock
      )
      yield* Effect.exit(atomic(sql)(losing))
      assert.strictEqual(runs, 4)
      runs = 0
      yield* Effect.exit(atomicWithoutRetry(sql)(losing))
      assert.strictEqual(runs, 1)
    })
  )

  it.effect("is counted for its client and those beside it, and for no other of the process", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const built = yield* Layer.build(Layer.fresh(Database.layerDedicatedPool(1)))
      const beside = Context.get(built, PgClient.PgClient)
      const { url } = yield* TestDatabase
      const other = Context.get(yield* Layer.build(Layer.fresh(Database.layer({ url }))), PgClient.PgClient)
      const during = yield* atomic(beside)(Effect.sync(() => [sql, beside, other].map(transactionCounts)))
      assert.deepStrictEqual(during, [
        { waiting: 0, open: 1 },
        { waiting: 0, open: 1 },
        { waiting: 0, open: 0 }
      ])
      assert.deepStrictEqual(transactionCounts(sql), { waiting: 0, open: 0 })
    })
  )
})
