import { assert, it, layer } from "@effect/vitest"
import { PgConnection } from "@effect/sql-pg"
import { Effect, type Redacted } from "effect"
import { SqlClient } from "effect/sql"
import * as Database from "../../src/server/store/Database.ts"
import { cloneDatabase, TestDatabase } from "./postgres.ts"

layer(TestDatabase.layerSql, { excludeTestServices: true })("TestDatabase", (it) => {
  it.effect("a test file's database has every migration and no rows", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const rows = yield* sql<{ migrations: number; organizations: number }>`
        SELECT (SELECT count(*)::int FROM schema_migrations) AS migrations,
          (SELECT count(*)::int FROM organizations) AS organizations
      `
      assert.isAbove(rows[0]?.migrations ?? 0, 0)
      assert.strictEqual(rows[0]?.organizations, 0)
    })
  )
})

it.live("cloneDatabase: a change of one clone is invisible in another", () =>
  Effect.gen(function* () {
    const one = yield* cloneDatabase
    const other = yield* cloneDatabase
    const tables = (url: Redacted.Redacted) =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        yield* sql`CREATE TABLE mine (id int)`
        return (yield* sql`SELECT FROM pg_tables WHERE tablename = 'mine'`).length
      }).pipe(Effect.provide(Database.layer({ url })))
    assert.deepEqual([yield* tables(one), yield* tables(other)], [1, 1])
  })
)

it.live("cloneDatabase: a clone is dropped when its scope closes", () =>
  Effect.gen(function* () {
    const url = yield* Effect.scoped(cloneDatabase)
    const error = yield* Effect.flip(Effect.scoped(PgConnection.make({ url })))
    assert.include(String(error.reason.cause), "does not exist")
  })
)
