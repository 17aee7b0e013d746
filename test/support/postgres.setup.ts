import { PgConnection } from "@effect/sql-pg"
import { Config, ConfigProvider, Context, Effect, Exit, Layer, Option, Redacted, Scope } from "effect"
import { readdir, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import path from "node:path"
import type { TestProject } from "vitest/node"
import * as Database from "../../src/server/store/Database.ts"
import { EmbeddedPostgres } from "../../src/server/store/EmbeddedPostgres.ts"
import { databaseName, withDatabase, MAX_CLONE_AGE_SECONDS, PREFIX } from "./postgres.ts"
import { migrate } from "../../src/server/store/migrate.ts"

declare module "vitest" {
  interface ProvidedContext {
    /** The URL of the test server. Its role may create databases. */
    readonly postgresUrl: string
    /** The migrated template of every test file's database. */
    readonly postgresTemplate: string
  }
}

/** The test server: the one of COUNTERSIGN_TEST_DATABASE_URL, else an embedded one in a temporary directory. */
const server = Effect.gen(function* () {
  const given = yield* Config.option(Config.Redacted("COUNTERSIGN_TEST_DATABASE_URL")).parse(
    ConfigProvider.fromEnv()
  )
  if (Option.isSome(given)) return { url: given.value, where: "COUNTERSIGN_TEST_DATABASE_URL" }
  yield* removeOldRuns
  const dataDir = path.join(tmpdir(), `${DIRECTORY}${process.pid}`)
  yield* Effect.addFinalizer(() => Effect.promise(() => rm(dataDir, { recursive: true, force: true })))
  // The data is temporary, so commits need not wait for the disk.
  const services = yield* Layer.build(EmbeddedPostgres.layer({ dataDir, sync: false }))
  return { url: Context.get(services, EmbeddedPostgres).url, where: `embedded, ${dataDir}` }
})

const DIRECTORY = "countersign-tests-"

/** Removes directories of killed runs. A server that still runs in one ends when its files are gone. */
const removeOldRuns = Effect.promise(async () => {
  for (const name of await readdir(tmpdir())) {
    if (!name.startsWith(DIRECTORY)) continue
    try {
      process.kill(Number(name.slice(DIRECTORY.length)), 0)
    } catch {
      await rm(path.join(tmpdir(), name), { recursive: true, force: true })
    }
  }
})

/** Drops databases of killed runs: those without connections that are older than any run. */
const dropOldClones = Effect.fn(function* (admin: PgConnection.PgConnection) {
  const { rows } = yield* admin.query(
    `SELECT datname::text AS name FROM pg_database
     WHERE starts_with(datname, $1)
       AND split_part(datname, '_', 3)::bigint < extract(epoch FROM now()) - $2::int
       AND NOT EXISTS (SELECT FROM pg_stat_activity a WHERE a.datname = pg_database.datname)`,
    [PREFIX, MAX_CLONE_AGE_SECONDS]
  )
  for (const { name } of rows) yield* admin.query(`DROP DATABASE IF EXISTS "${String(name)}" WITH (FORCE)`)
})

const prepare = Effect.gen(function* () {
  const { url, where } = yield* server
  const admin = yield* PgConnection.make({ url })
  const { rows } = yield* admin.query("SELECT current_setting('server_version') AS version")
  yield* dropOldClones(admin)
  const template = yield* databaseName
  yield* Effect.addFinalizer(() => Effect.ignore(admin.query(`DROP DATABASE "${template}" WITH (FORCE)`)))
  yield* admin.query(`CREATE DATABASE "${template}"`)
  yield* migrate.pipe(Effect.provide(Database.layer({ url: withDatabase(url, template), maxConnections: 1 })))
  return { url, template, line: `tests run on PostgreSQL ${String(rows[0]?.["version"])} (${where})` }
})

/**
 * Starts the test server and migrates the template, once per run. The run fails if no server is available.
 */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const scope = Scope.makeUnsafe()
  const close = () => Effect.runPromise(Scope.close(scope, Exit.void))
  const { line, template, url } = await Effect.runPromise(Scope.provide(prepare, scope)).catch(
    async (error: unknown) => {
      await close()
      throw error
    }
  )
  project.provide("postgresUrl", Redacted.value(url))
  project.provide("postgresTemplate", template)
  process.stdout.write(`${line}\n`)
  return close
}
