import { assert, layer } from "@effect/vitest"
import { PgConnection } from "@effect/sql-pg"
import { Effect, Exit, Fiber, Layer, Scope } from "effect"
import { makeReadiness, migrate } from "../../../src/server/store/migrate.ts"
import * as Database from "../../../src/server/store/Database.ts"
import { waitForStatementBlockedFor } from "../../support/eventually.ts"
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

  it.effect("a start waits for a replica that migrates longer than any timeout of requests", () =>
    Effect.gen(function* () {
      const { url } = yield* TestDatabase
      const migrating = yield* Scope.make()
      yield* Scope.provide(lockMigrations("ACCESS EXCLUSIVE"), migrating)
      const database = Layer.orDie(Database.layer({ url, statementTimeoutMillis: 300 }))
      const starting = yield* Effect.forkChild(Effect.provide(migrate, database))
      yield* Effect.raceFirst(
        waitForStatementBlockedFor(3_000),
        Effect.andThen(Fiber.join(starting), Effect.never)
      )
      yield* Scope.close(migrating, Exit.void)
      assert.deepStrictEqual(yield* Fiber.join(starting), [])
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
