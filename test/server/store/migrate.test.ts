import { assert, layer } from "@effect/vitest"
import { PgConnection } from "@effect/sql-pg"
import { Effect, Exit, Fiber, Layer, Scope } from "effect"
import { SqlClient } from "effect/sql"
import { layerMigrated, makeReadiness, migrate } from "../../../src/server/store/migrate.ts"
import { migrations } from "../../../src/server/store/migrations/index.ts"
import { transaction } from "../../../src/server/store/transaction.ts"
import * as Database from "../../../src/server/store/Database.ts"
import { waitForBlockedStatements, waitForStatementBlockedFor } from "../../support/eventually.ts"
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

  it.effect(
    "a migration waits for a lock in short attempts, and changes nothing before it has all of them",
    () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const { url } = yield* TestDatabase
        yield* sql`DROP SCHEMA public CASCADE`
        yield* sql`CREATE SCHEMA public`
        yield* sql`
        CREATE TABLE schema_migrations (
          migration_id integer PRIMARY KEY,
          created_at timestamptz NOT NULL DEFAULT now(),
          name text NOT NULL
        )
      `
        const other = yield* PgConnection.make({ url })
        yield* other.query("BEGIN")
        yield* other.query("LOCK TABLE schema_migrations IN SHARE MODE")
        const migrating = yield* Effect.forkChild(migrate)
        yield* transaction(waitForBlockedStatements(1))
        // Waits behind the migration until that gives up the lock.
        yield* transaction(sql`LOCK TABLE schema_migrations IN SHARE MODE`)
        assert.deepStrictEqual(yield* sql`SELECT to_regclass('runs') IS NULL AS unchanged`, [
          { unchanged: true }
        ])
        yield* other.query("COMMIT")
        assert.deepStrictEqual(yield* Fiber.join(migrating), Object.keys(migrations))
      })
  )

  it.effect(
    "a database of an unreleased version is refused in one sentence, and nothing in it is changed",
    () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        // Shortly before 1.0.0, there was one migration too.
        yield* sql`UPDATE schema_migrations SET name = 'baseline' WHERE migration_id = 1`
        assert.strictEqual((yield* Effect.flip(migrate))._tag, "SchemaUnreleased")
        yield* sql`UPDATE schema_migrations SET name = 'identity' WHERE migration_id = 1`
        yield* sql`INSERT INTO schema_migrations (migration_id, name) VALUES (2, 'sessions')`
        const before = yield* sql`SELECT * FROM schema_migrations ORDER BY migration_id`
        const refused = yield* Effect.flip(Effect.scoped(Layer.build(layerMigrated)))
        assert.strictEqual(
          refused.message,
          "the database belongs to an unreleased version of countersign, from before the schema of 1.0.0: start over with an empty " +
            "database, and copy the data that you need with pg_dump; nothing was changed"
        )
        assert.deepStrictEqual(yield* sql`SELECT * FROM schema_migrations ORDER BY migration_id`, before)
        assert.isFalse(yield* yield* makeReadiness)
        yield* sql`DELETE FROM schema_migrations WHERE migration_id = 2`
        yield* sql`UPDATE schema_migrations SET name = 'first_release' WHERE migration_id = 1`
      })
  )

  it.effect(
    "a start works on the schema of a newer version, unless a migration is marked as incompatible",
    () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const start = Effect.scoped(Layer.build(layerMigrated))
        yield* sql`INSERT INTO schema_migrations (migration_id, name) VALUES (9998, 'something')`
        yield* start
        yield* sql`INSERT INTO schema_migrations (migration_id, name) VALUES (9999, 'drop_it_incompatible')`
        const refused = yield* Effect.flip(start)
        assert.strictEqual(
          refused.message,
          "a newer version of countersign has applied migration 9999_drop_it_incompatible to the database, with which this version does " +
            "not work: run the newer version, or restore the backup from before the upgrade"
        )
        yield* sql`DELETE FROM schema_migrations WHERE migration_id > 9000`
      })
  )
})
