import { PgClient, PgConnection } from "@effect/sql-pg"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Logger, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { inject } from "vitest"
import { DatabaseOutage } from "../../../src/server/observability/DatabaseOutage.ts"
import * as Database from "../../../src/server/store/Database.ts"
import * as DatabaseHealth from "../../../src/server/store/DatabaseHealth.ts"
import { sqlState } from "../../../src/server/store/databaseErrors.ts"
import { makeReadiness } from "../../../src/server/store/migrate.ts"
import { eventually } from "../../support/eventually.ts"
import { cloneDatabase } from "../../support/postgres.ts"

/** Log lines at level info and above, and a layer that collects them. */
const collectLog = () => {
  const lines: Array<{ readonly message: string; readonly level: string }> = []
  const collector = Logger.make<unknown, void>(({ logLevel, message }) => {
    if (logLevel === "Debug" || logLevel === "Trace") return
    lines.push({ message: Array.isArray(message) ? message.join(" ") : String(message), level: logLevel })
  })
  return { lines, layer: Logger.layer([collector]) }
}

const asAdmin = (statement: string) =>
  Effect.orDie(
    Effect.scoped(
      Effect.flatMap(PgConnection.make({ url: Redacted.make(inject("postgresUrl")) }), (admin) =>
        admin.query(statement)
      )
    )
  )

const databaseOf = (url: Redacted.Redacted) => new URL(Redacted.value(url)).pathname.slice(1)

/** A client whose outages are logged. A connection on which the server is silent is closed after 2.5 s. */
const layerOf = (url: Redacted.Redacted, log: Layer.Layer<never>) =>
  DatabaseHealth.layer.pipe(
    Layer.provideMerge(Layer.orDie(Database.layer({ url, maxConnections: 2, statementTimeoutMillis: 500 }))),
    Layer.provideMerge(log)
  )

const reportFailure = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const { report } = yield* DatabaseOutage
  return yield* Effect.flatMap(Effect.flip(sql`CREATE TABLE outage_test (a int)`), report)
})

describe("DatabaseHealth", () => {
  it.live("a read-only server is not ready, and is logged once with the reason, and again when it ends", () =>
    Effect.gen(function* () {
      const url = yield* cloneDatabase
      yield* asAdmin(`ALTER DATABASE "${databaseOf(url)}" SET default_transaction_read_only = on`)
      const log = collectLog()
      yield* Effect.gen(function* () {
        const ready = yield* makeReadiness
        assert.isFalse(yield* ready)
        for (let request = 0; request < 50; request++) assert.isTrue(yield* reportFailure)
        assert.isFalse(yield* ready)
        assert.deepStrictEqual(
          log.lines.filter(({ message }) => message.startsWith("The database is unavailable")),
          [
            {
              level: "Error",
              message:
                "The database is unavailable: the server is read-only: a standby, or default_transaction_read_only is on (SQLSTATE 25006)"
            }
          ]
        )
        assert.isAtMost(log.lines.length, 2)

        yield* asAdmin(`ALTER DATABASE "${databaseOf(url)}" RESET default_transaction_read_only`)
        // The sessions that were open meanwhile would stay read-only: they are replaced.
        yield* eventually(ready, (isReady) => isReady)

        // A statement that was sent during the outage fails once its connection has been silent for too long.
        const sql = yield* PgClient.PgClient
        const { report } = yield* DatabaseOutage
        assert.isTrue(yield* report(yield* Effect.flip(sql`SELECT pg_terminate_backend(pg_backend_pid())`)))
        assert.isTrue(yield* ready)
        yield* eventually(
          Effect.sync(() => log.lines.at(-1)?.message),
          (message) => message === "The database is available again"
        )
        assert.lengthOf(
          log.lines.filter(({ message }) => message.startsWith("The database is unavailable")),
          1
        )
      }).pipe(Effect.provide(layerOf(url, log.layer)))
    })
  )

  it.live("a server without free connections is not ready, although the pool has one", () =>
    Effect.gen(function* () {
      const url = yield* cloneDatabase
      const database = databaseOf(url)
      yield* asAdmin(`ALTER DATABASE "${database}" CONNECTION LIMIT 2`)
      const log = collectLog()
      yield* Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        yield* sql`SELECT 1`
        const ready = yield* makeReadiness
        assert.isTrue(yield* ready)
        const { report } = yield* DatabaseOutage
        yield* Effect.scoped(
          Effect.gen(function* () {
            yield* PgConnection.make({ url })
            const refused = yield* Effect.flip(Effect.scoped(PgConnection.make({ url })))
            assert.isTrue(yield* report(refused))
            assert.isFalse(yield* ready)
            assert.deepStrictEqual(log.lines, [
              {
                level: "Error",
                message: `The database is unavailable: too many connections for database "${database}" (SQLSTATE 53300)`
              }
            ])
          })
        )
        yield* eventually(ready, (isReady) => isReady)
      }).pipe(Effect.provide(layerOf(url, log.layer)))
    })
  )

  it.live("a lost connection is logged, and does not make the service unready", () =>
    Effect.gen(function* () {
      const url = yield* cloneDatabase
      const log = collectLog()
      yield* Effect.gen(function* () {
        const sql = yield* PgClient.PgClient
        const { isDown, report } = yield* DatabaseOutage
        const lost = yield* Effect.flip(sql`SELECT pg_terminate_backend(pg_backend_pid())`)
        assert.isTrue(yield* report(lost))
        assert.isFalse(isDown())
        assert.strictEqual(log.lines[0]?.level, "Error")
        assert.match(log.lines[0]?.message ?? "", /^The database is unavailable: /)
        yield* eventually(
          Effect.sync(() => log.lines.at(-1)?.message),
          (message) => message === "The database is available again"
        )
      }).pipe(Effect.provide(layerOf(url, log.layer)))
    })
  )

  it.live("an error of one statement is no outage", () =>
    Effect.gen(function* () {
      const url = yield* cloneDatabase
      const log = collectLog()
      yield* Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const { report } = yield* DatabaseOutage
        assert.isFalse(yield* report(yield* Effect.flip(sql`SELECT 1 / 0`)))
        assert.isFalse(yield* report(new Error("other")))
        assert.deepStrictEqual(log.lines, [])
      }).pipe(Effect.provide(layerOf(url, log.layer)))
    })
  )

  it.live(
    "a read-only disk and a used-up quota are outages, although they have the SQLSTATE of other errors",
    () =>
      Effect.gen(function* () {
        const url = yield* cloneDatabase
        const log = collectLog()
        yield* Effect.gen(function* () {
          const sql = yield* SqlClient.SqlClient
          const { report } = yield* DatabaseOutage
          const raise = (fields: string) =>
            Effect.flip(sql.unsafe(`DO $$ BEGIN RAISE EXCEPTION USING ${fields}; END $$`))
          assert.isFalse(
            yield* report(yield* raise("ERRCODE = '42501', MESSAGE = 'permission denied for table runs'"))
          )
          assert.isFalse(yield* report(yield* raise("ERRCODE = 'XX000', MESSAGE = 'cache lookup failed'")))
          assert.deepStrictEqual(log.lines, [])
          for (const fields of [
            `ERRCODE = '42501', MESSAGE = 'could not open file "base/5/16399": Read-only file system'`,
            `ERRCODE = 'XX000', MESSAGE = 'could not extend file "base/5/16399": Disk quota exceeded'`,
            `ERRCODE = '42501', MESSAGE = 'could not access status of transaction 7', DETAIL = 'Could not write to file "pg_xact/0000" at offset 0: Read-only file system.'`
          ])
            assert.isTrue(yield* report(yield* raise(fields)))
          assert.match(log.lines[0]?.message ?? "", /: Read-only file system \(SQLSTATE 42501\)$/)
        }).pipe(Effect.provide(layerOf(url, log.layer)))
      })
  )

  it.live("a statement that exceeds a limit of its own is no outage", () =>
    Effect.gen(function* () {
      const url = yield* cloneDatabase
      yield* Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const { report } = yield* DatabaseOutage
        // configuration_limit_exceeded, as for `temp_file_limit`
        const failure = yield* Effect.flip(sql`DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '53400'; END $$`)
        assert.strictEqual(sqlState(failure), "53400")
        assert.isFalse(yield* report(failure))
        assert.isTrue(yield* yield* makeReadiness)
      }).pipe(Effect.provide(layerOf(url, collectLog().layer)))
    }).pipe(Effect.scoped)
  )
})
