import { PgConnection, PgMigrator } from "@effect/sql-pg"
import { assert, layer } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { SqlClient } from "effect/sql"
import { migrate } from "../../../src/server/store/migrate.ts"
import { migrations } from "../../../src/server/store/migrations/index.ts"
import { transaction } from "../../../src/server/store/transaction.ts"
import { waitForBlockedStatements } from "../../support/eventually.ts"
import { TestDatabase } from "../../support/postgres.ts"

/** The newest migration of the version that is upgraded. */
const OLDER = "0051"

const older = Object.entries(migrations).filter(([name]) => name.slice(0, 4) <= OLDER)
const newer = Object.entries(migrations).filter(([name]) => name.slice(0, 4) > OLDER)

/** Gives the database the schema of the older version. */
const downgrade = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* sql`DROP SCHEMA public CASCADE`
  yield* sql`CREATE SCHEMA public`
  yield* PgMigrator.make({})({
    loader: PgMigrator.fromRecord(Object.fromEntries(older)),
    table: "schema_migrations"
  })
})

/** Locks a table in another session, as its statements of a replica in service do. Returns what ends them. */
const useTable = Effect.fnUntraced(function* (table: string, mode: "ACCESS SHARE" | "ROW EXCLUSIVE") {
  const { url } = yield* TestDatabase
  const other = yield* PgConnection.make({ url })
  yield* other.query("BEGIN")
  yield* other.query(`LOCK TABLE ${table} IN ${mode} MODE`)
  return other.query("COMMIT")
})

const blocked = transaction(waitForBlockedStatements(1))

layer(TestDatabase.layerSql, { excludeTestServices: true })("an upgrade of replicas in service", (it) => {
  it.effect("runs go on while the indexes of results and feedback are built", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* downgrade
      // They hold up the migration where it builds an index, or is about to.
      const endResults = yield* useTable("comparison_results", "ROW EXCLUSIVE")
      const endFeedback = yield* useTable("feedback", "ACCESS SHARE")
      const upgrading = yield* Effect.forkChild(migrate)
      const useForRuns = sql`
        SELECT
          (SELECT count(*) FROM tasks), (SELECT count(*) FROM releases), (SELECT count(*) FROM provider_keys),
          (SELECT count(*) FROM datasets), (SELECT count(*) FROM dataset_examples), (SELECT count(*) FROM runs),
          (SELECT count(*) FROM telemetry_destinations), (SELECT count(*) FROM telemetry_batches)
      `
      yield* blocked
      yield* useForRuns
      yield* sql`SELECT count(*) FROM comparisons`
      yield* endResults
      yield* blocked
      yield* useForRuns
      yield* endFeedback
      assert.deepStrictEqual(
        yield* Fiber.join(upgrading),
        newer.map(([name]) => name)
      )
    })
  )

  it.effect("requests go on while a long transaction holds up a migration, which is repeated", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* downgrade
      // As a pg_dump does.
      const endDump = yield* useTable("feedback", "ACCESS SHARE")
      const upgrading = yield* Effect.forkChild(migrate)
      yield* blocked
      // Waits behind the migration until that gives up the lock.
      yield* sql`SELECT count(*) FROM feedback`
      const [after] = yield* sql<{ readonly id: number }>`
        SELECT max(migration_id)::int AS id
        FROM schema_migrations
      `
      assert.strictEqual(after?.id, Number(OLDER))
      yield* endDump
      assert.deepStrictEqual(
        yield* Fiber.join(upgrading),
        newer.map(([name]) => name)
      )
    })
  )

  it.effect("no existing table is read except to build an index", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* downgrade
      const tables = yield* sql<{ readonly name: string }>`
        SELECT relname::text AS name
        FROM pg_class
        WHERE relnamespace = 'public'::regnamespace
          AND relkind = 'r'
      `
      const scans = Effect.forEach(tables, ({ name }) =>
        Effect.map(
          sql<{ readonly scans: number }>`
            SELECT pg_stat_get_xact_numscans(${name}::regclass)::int AS scans
          `,
          ([row]) => [name, row?.scans ?? 0] as const
        )
      )
      const read = yield* transaction(
        Effect.gen(function* () {
          const before = new Map(yield* scans)
          yield* Effect.forEach(newer, ([, migration]) => migration, { discard: true })
          return (yield* scans).map(([name, count]) => [name, count - (before.get(name) ?? 0)] as const)
        })
      )
      // 0071 also counts approvals, deliveries and runs once. It reads them by an index, which is not counted here.
      assert.deepStrictEqual(Object.fromEntries(read.filter(([, count]) => count > 0)), {
        api_keys: 1,
        approvals: 3,
        console_sessions: 2,
        comparison_results: 2,
        feedback: 6,
        feedback_counts: 1,
        governed_steps: 4,
        run_reviews: 1,
        runs: 3
      })
    })
  )
})
