import { PgConnection } from "@effect/sql-pg"
import { assert, describe, it, layer } from "@effect/vitest"
import { Context, Effect, Layer, Redacted, Result } from "effect"
import { parseApiKey } from "../../src/domain/identity/ApiKeyFormat.ts"
import { cli } from "../support/cli.ts"
import { cloneDatabase } from "../support/postgres.ts"
import { migrations } from "../../src/server/store/migrations/index.ts"

const DATASET = `dst_${"0".repeat(32)}`
const KEY = `key_${"0".repeat(32)}`

/** Commands that must not migrate a database. */
const withoutMigration: ReadonlyArray<ReadonlyArray<string>> = [
  ["keys", "create", "--preset", "admin"],
  ["keys", "list"],
  ["keys", "revoke", KEY],
  ["keys", "rotate-master"],
  ["datasets", "export", DATASET],
  ["datasets", "import", "--task", `tsk_${"0".repeat(32)}`, "examples.jsonl"]
]

describe("commands without a database", () => {
  it.live("do not create one, and report what is missing", () =>
    Effect.gen(function* () {
      for (const args of withoutMigration) {
        const { err, ok, out } = yield* cli(args)
        assert.isFalse(ok)
        assert.strictEqual(out, "")
        assert.strictEqual(
          err,
          "no database in /srv/app/.countersign: set DATABASE_URL or COUNTERSIGN_DATA_DIR as the service has it; only serve and migrate create a database"
        )
      }
    })
  )

  it.live(
    "with COUNTERSIGN_CREATE_DATABASE=false, migrate creates none, and keys create no tables in an empty one",
    () =>
      Effect.gen(function* () {
        const embedded = yield* cli(["migrate"], { COUNTERSIGN_CREATE_DATABASE: "false" })
        assert.isFalse(embedded.ok)
        assert.match(
          embedded.err,
          /^no database in \/srv\/app\/\.countersign, and COUNTERSIGN_CREATE_DATABASE is false: mount the volume/
        )
        const url = yield* cloneDatabase
        const other = yield* PgConnection.make({ url })
        const external = cli(["keys", "create", "--preset", "admin"], {
          DATABASE_URL: Redacted.value(url),
          COUNTERSIGN_MASTER_KEY: MASTER_KEY
        })
        assert.isTrue((yield* external).ok)
        yield* other.query("DROP SCHEMA public CASCADE")
        yield* other.query("CREATE SCHEMA public")
        const empty = yield* external
        assert.isFalse(empty.ok)
        assert.match(empty.err, /^the database has schema version 0, .*: run countersign migrate$/)
        const { rows } = yield* other.query("SELECT 1 FROM pg_tables WHERE schemaname = 'public'")
        assert.lengthOf(rows, 0)
      }).pipe(Effect.scoped)
  )

  it.live("keys generate needs no configuration", () =>
    Effect.gen(function* () {
      const { err, out } = yield* cli(["keys", "generate"], { DATABASE_URL: "no URL" })
      assert.strictEqual(err, "")
      assert.isTrue(Result.isSuccess(parseApiKey(out)))
    })
  )
})

const MASTER_KEY = Buffer.from(Array.from({ length: 32 }, (_, index) => index)).toString("base64")

const latestMigration = Math.max(...Object.keys(migrations).map((name) => Number.parseInt(name, 10)))

/** A database whose latest recorded migration can be renumbered. */
class Store extends Context.Service<
  Store,
  {
    readonly run: (args: ReadonlyArray<string>) => ReturnType<typeof cli>
    readonly renumber: (from: number, to: number) => Effect.Effect<void>
  }
>()("test/Store") {
  static readonly layer = Layer.effect(
    Store,
    Effect.gen(function* () {
      const url = yield* cloneDatabase
      const other = yield* PgConnection.make({ url })
      return Store.of({
        run: (args) => cli(args, { DATABASE_URL: Redacted.value(url), COUNTERSIGN_MASTER_KEY: MASTER_KEY }),
        renumber: (from, to) =>
          other
            .query(`UPDATE schema_migrations SET migration_id = ${to} WHERE migration_id = ${from}`)
            .pipe(Effect.orDie, Effect.asVoid)
      })
    })
  )
}

layer(Store.layer, { excludeTestServices: true })(
  "commands on a database with another schema version",
  (it) => {
    it.effect("refuse an older or newer schema and change nothing", () =>
      Effect.gen(function* () {
        const { renumber, run } = yield* Store
        assert.include(
          (yield* run(["keys", "create", "--preset", "admin"])).err,
          "PostgreSQL at DATABASE_URL"
        )
        for (const [number, says] of [
          [
            0,
            `the database has schema version ${latestMigration - 1}, but this version of countersign needs ${latestMigration}: run countersign migrate`
          ],
          [
            latestMigration + 1,
            `the database has schema version ${latestMigration + 1}, but this version of countersign supports ${latestMigration} at most: run the version that migrated it`
          ]
        ] as const) {
          yield* renumber(latestMigration, number)
          for (const args of withoutMigration) assert.strictEqual((yield* run(args)).err, says)
          if (number > latestMigration) assert.strictEqual((yield* run(["migrate"])).err, says)
          yield* renumber(number, latestMigration)
        }
        assert.isTrue((yield* run(["keys", "list"])).ok)
      })
    )

    it.effect("config --check reports the database and the ids of the master keys", () =>
      Effect.gen(function* () {
        const { renumber, run } = yield* Store
        const { err, ok } = yield* run(["config", "--check"])
        assert.isTrue(ok, err)
        assert.match(err, /The database is usable: PostgreSQL \d+/)
        assert.match(err, /Master keys: [0-9a-f]+ \(encrypts\)\./)
        yield* renumber(latestMigration, -1)
        const older = yield* run(["config", "--check"])
        yield* renumber(-1, latestMigration)
        assert.isFalse(older.ok)
        assert.include(older.err, "run countersign migrate")
      })
    )

    it.effect("keys create reports the organization that it creates", () =>
      Effect.gen(function* () {
        const { run } = yield* Store
        const create = run(["keys", "create", "--org", "acme", "--preset", "admin"])
        assert.include((yield* create).err, "Created organization acme.")
        assert.notInclude((yield* create).err, "Created organization")
      })
    )
  }
)

describe("a database in which the role may not create tables", () => {
  it.live("is reported with the server's reason and what to do", () =>
    Effect.gen(function* () {
      const url = yield* cloneDatabase
      const connection = yield* PgConnection.make({ url })
      yield* connection.query("DROP OWNED BY CURRENT_USER")
      yield* connection.query("REVOKE CREATE ON SCHEMA public FROM PUBLIC, pg_database_owner")
      const variables = {
        DATABASE_URL: Redacted.value(url),
        COUNTERSIGN_MASTER_KEY: MASTER_KEY
      }
      const { err, ok } = yield* cli(["migrate"], variables)
      assert.isFalse(ok)
      assert.include(err, "permission denied for schema public (SQLSTATE 42501)")
      assert.include(err, "GRANT USAGE, CREATE ON SCHEMA public")
    })
  )
})

describe("an invalid command line", () => {
  it.live("is reported on stderr alone, because stdout is what scripts capture", () =>
    Effect.gen(function* () {
      for (const [args, says] of [
        [["keys", "create", "--preset", "foo"], /--preset.*"admin" \| "reviewer"/],
        [["keys", "revoke", "foo"], /Expected: an identifier that reads key_/],
        [["keys", "craete"], /Did you mean this\?\s+create/]
      ] as const) {
        const { err, ok, out } = yield* cli(args)
        assert.isFalse(ok)
        assert.strictEqual(out, "")
        assert.match(err, says)
        assert.match(err, /See countersign keys.* --help/)
        assert.isAtMost(err.split("\n").length, 8)
      }
    })
  )
})
