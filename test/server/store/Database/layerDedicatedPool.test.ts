import { assert, layer } from "@effect/vitest"
import { Context, Effect, Exit, Fiber, Layer } from "effect"
import { SqlClient } from "effect/sql"
import * as Database from "../../../../src/server/store/Database.ts"
import { atomic } from "../../../../src/server/store/transaction.ts"
import { eventually } from "../../../support/eventually.ts"
import { TestDatabase } from "../../../support/postgres.ts"

layer(TestDatabase.layerSql, { excludeTestServices: true })("layerDedicatedPool", (it) => {
  it.effect("a transaction that pauses for long is ended by the server, and its row locks with it", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const built = yield* Layer.build(Layer.fresh(Database.layerDedicatedPool(1)))
      const dedicated = Context.get(built, SqlClient.SqlClient)
      yield* sql`CREATE TABLE locked_rows AS SELECT 1 AS id`
      const free = sql`SELECT FROM locked_rows FOR UPDATE SKIP LOCKED`
      const pausing = yield* Effect.forkChild(
        atomic(dedicated)(
          Effect.andThen(dedicated`SELECT FROM locked_rows FOR UPDATE`, Effect.sleep("1 hour"))
        )
      )
      yield* eventually(free, (rows) => rows.length === 0)
      yield* eventually(free, (rows) => rows.length === 1)
      yield* Fiber.interrupt(pausing)
      assert.isTrue(Exit.isFailure(yield* Fiber.await(pausing)))
    })
  )
})
