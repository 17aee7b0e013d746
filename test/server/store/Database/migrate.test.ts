import { assert, layer } from "@effect/vitest"
import { PgConnection } from "@effect/sql-pg"
import { Effect } from "effect"
import { makeReadiness, migrate } from "../../../../src/server/store/Database/migrate.ts"
import { TestDatabase } from "../../../support/postgres.ts"

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
