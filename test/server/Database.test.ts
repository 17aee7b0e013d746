import { assert, layer } from "@effect/vitest"
import { PgConnection } from "@effect/sql-pg"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import * as Database from "../../src/server/Database.ts"
import { TestDatabase } from "../support/postgres.ts"
import { makeReadiness, migrate } from "../../src/server/Database/migrate.ts"

/** Has another session hold the table of migrations until the scope closes: as a backup does, or another process that migrates. */
const held = Effect.fnUntraced(function* (mode: "ACCESS SHARE" | "ACCESS EXCLUSIVE") {
  const { url } = yield* TestDatabase
  const other = yield* PgConnection.make({ url })
  yield* other.query("BEGIN")
  yield* other.query(`LOCK TABLE schema_migrations IN ${mode} MODE`)
})

layer(TestDatabase.layerSql, { excludeTestServices: true })("a migrated store", (it) => {
  it.effect("is found to be one while a backup reads it", () =>
    Effect.gen(function* () {
      yield* held("ACCESS SHARE")
      assert.deepStrictEqual(yield* migrate, [])
    })
  )

  it.effect("stays ready while another process migrates it further", () =>
    Effect.gen(function* () {
      const ready = yield* makeReadiness
      assert.isTrue(yield* ready)
      yield* held("ACCESS EXCLUSIVE")
      assert.isTrue(yield* ready)
    })
  )
})

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
      yield* Effect.exit(Database.atomic(sql)(losing))
      assert.strictEqual(runs, 4)
      runs = 0
      yield* Effect.exit(Database.atomicOnce(sql)(losing))
      assert.strictEqual(runs, 1)
    })
  )
})
