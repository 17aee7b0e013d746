import { assert, layer } from "@effect/vitest"
import { PgConnection } from "@effect/sql-pg"
import { Effect } from "effect"
import { makeReadiness, migrate } from "../../../src/server/store/migrate.ts"
import { TestDatabase } from "../../support/postgres.ts"

/** Locks the table of migrations in another session until the scope closes, as a backup or a migrating replica does. */
const lockMigrations = Effect.fnUntraced(function* (mode: "ACCESS SHARE" | "ACCESS EXCLUSIVE") {
  const { url } = yield* TestDatabase
  const other = yield* PgConnection.make({ url })
  yield* other.query("BEGIN")
  yield* other.query(`LOCK TABLE schema_migrations IN ${mode} MODE`)
})

layer(TestDatabase.layerSql, { excludeTestServices: true })("migrate", (it) => {
  it.effect("a migrated database needs no lock that a backup would block", () =>
    Effect.gen(function* () {
      yield* lockMigrations("ACCESS SHARE")
      assert.deepStrictEqual(yield* migrate, [])
    })
  )

  it.effect("readiness stays true while another replica migrates", () =>
    Effect.gen(function* () {
      const ready = yield* makeReadiness
      assert.isTrue(yield* ready)
      yield* lockMigrations("ACCESS EXCLUSIVE")
      assert.isTrue(yield* ready)
    })
  )
})
