import { PgConnection } from "@effect/sql-pg"
import { assert, layer } from "@effect/vitest"
import { Cause, Effect, Exit, Layer, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { OrgId } from "../../../src/domain/Ids.ts"
import { installFence, removeFence, skippingTables } from "../../../src/server/cells/fence.ts"
import { listMovedTables } from "../../../src/server/cells/movedTables.ts"
import * as Database from "../../../src/server/store/Database.ts"
import { migrate } from "../../../src/server/store/migrate.ts"
import { TestDatabase } from "../../support/postgres.ts"

const freeze = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const org_id = yield* OrgId.generate
  yield* sql`
    INSERT INTO organization_moves (org_id, move_id, name, state, is_fenced, started_at, changed_at)
    VALUES (${org_id}, 'move', 'acme', 'frozen', true, now(), now())
  `
  return { org_id, move_id: "move" }
})

/** The tables that fence an organization. */
const fencedTables = (org_id: OrgId) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const rows = yield* sql<{ readonly name: string }>`
      SELECT tgrelid::regclass::text AS name
      FROM pg_trigger
      WHERE tgname = ${`moving_${org_id}_insert`}
        AND tgparentid = 0
    `
    return new Set(rows.map(({ name }) => name))
  })

layer(TestDatabase.layerSql, { excludeTestServices: true, timeout: "60 seconds" })(
  "the fence of an organization that moves",
  (it) => {
    it.effect(
      "is installed last where it skips rows, and names the table and the process that it waits for",
      () =>
        Effect.gen(function* () {
          const sql = yield* SqlClient.SqlClient
          const move = yield* freeze
          const tables = (yield* listMovedTables(sql)).map(({ name }) => name)
          // A request that writes: the last table that refuses rows.
          const last = tables.findLast((name) => !skippingTables.has(name)) ?? assert.fail("a table")
          const writer = yield* PgConnection.make({ url: (yield* TestDatabase).url })
          yield* writer.query("BEGIN")
          yield* writer.query(`LOCK TABLE ${last} IN ROW EXCLUSIVE MODE`)
          const { rows } = yield* writer.query("SELECT pg_backend_pid() AS pid")
          const pid = String(rows[0]?.["pid"])
          const reader = yield* PgConnection.make({ url: (yield* TestDatabase).url })
          yield* reader.query("BEGIN")
          yield* reader.query(`LOCK TABLE ${last} IN ACCESS SHARE MODE`)

          // More tries than until the first that looks for an autovacuum.
          const exit = yield* Effect.exit(installFence(sql, move, { maxTries: 11 }))
          if (Exit.isSuccess(exit)) return assert.fail("a refusal")
          assert.include(
            String(Cause.squash(exit.cause)),
            `The table ${last} could not be locked for two minutes, because of these processes of pg_stat_activity: ${pid}.`
          )
          const refusing = tables.filter((name) => !skippingTables.has(name) && name !== last)
          assert.deepStrictEqual(yield* fencedTables(move.org_id), new Set(refusing))

          // Repeated, it goes on.
          yield* writer.query("COMMIT")
          yield* installFence(sql, move)
          assert.deepStrictEqual(yield* fencedTables(move.org_id), new Set(tables))
          yield* reader.query("COMMIT")
          yield* sql`DELETE FROM organization_moves`
          yield* removeFence(sql, move.org_id)
          assert.deepStrictEqual(yield* fencedTables(move.org_id), new Set())
        }).pipe(Effect.scoped)
    )

    it.effect("lets a migration change the rows of an organization that moves", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const move = yield* freeze
        const { org_id } = move
        yield* sql`INSERT INTO organizations (org_id, name, created_at) VALUES (${org_id}, 'acme', now())`
        yield* sql`INSERT INTO organization_usage (org_id, runs, feedback, bytes) VALUES (${org_id}, 1, 0, 0)`
        yield* installFence(sql, move)
        assert.isFalse(skippingTables.has("organizations"))
        assert.isTrue(skippingTables.has("organization_usage"))

        // Migrations run in a new schema, before its tables exist. The first one changes a row that the fence refuses, and one that it skips.
        yield* sql`CREATE SCHEMA later`
        yield* sql`CREATE TABLE later.schema_migrations (LIKE public.schema_migrations INCLUDING ALL)`
        yield* sql.unsafe(`
          CREATE FUNCTION later.backfill() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN
            UPDATE public.organizations SET name = name || ' changed';
            UPDATE public.organization_usage SET runs = runs + 1;
            RETURN NULL;
          END$$
        `)
        yield* sql`
          CREATE TRIGGER backfill AFTER INSERT ON later.schema_migrations
          FOR EACH ROW WHEN (NEW.migration_id = 1) EXECUTE FUNCTION later.backfill()
        `
        const { url } = yield* TestDatabase
        const name = new URL(Redacted.value(url)).pathname.slice(1)
        yield* sql.unsafe(`ALTER DATABASE "${name}" SET search_path = later, public`)
        const applied = yield* Effect.provide(migrate, Layer.orDie(Database.layer({ url })))
        assert.isAbove(applied.length, 80)
        yield* sql.unsafe(`ALTER DATABASE "${name}" RESET search_path`)
        const rows = sql`
          SELECT name, runs::int AS runs FROM organizations JOIN organization_usage USING (org_id)
        `
        const migrated = [{ name: "acme changed", runs: 2 }]
        assert.deepStrictEqual(yield* rows, migrated)

        // Others still cannot.
        assert.isTrue(Exit.isFailure(yield* Effect.exit(sql`UPDATE organizations SET name = 'other'`)))
        yield* sql`UPDATE organization_usage SET runs = 3`
        assert.deepStrictEqual(yield* rows, migrated)
        yield* sql`DELETE FROM organization_moves`
        yield* removeFence(sql, org_id)
      })
    )

    it.effect("skips rows in the tables that its function names", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const [row] = yield* sql<{
          readonly source: string
        }>`SELECT prosrc AS source FROM pg_proc WHERE proname = 'organization_move_fence'`
        const [, list = ""] = /OR TG_TABLE_NAME IN \(([^)]*)\)/u.exec(row?.source ?? "") ?? []
        assert.deepStrictEqual(list.match(/\w+/gu)?.toSorted(), [...skippingTables].toSorted())
        const tables = new Set((yield* listMovedTables(sql)).map(({ name }) => name))
        assert.deepStrictEqual(
          [...skippingTables].filter((name) => !tables.has(name)),
          []
        )
      })
    )
  }
)
