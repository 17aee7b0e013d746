import { PgConnection } from "@effect/sql-pg"
import { Effect, Exit, Redacted, Scope } from "effect"
import type { TestProject } from "vitest/node"
import * as Database from "../../src/server/store/Database.ts"
import { databaseName, withDatabase, MAX_CLONE_AGE_SECONDS, PREFIX } from "./postgres.ts"
import { migrate } from "../../src/server/store/migrate.ts"
import { pgbouncerVersion, startPgBouncer } from "./pgbouncer.ts"
import { testServer } from "./testServer.ts"

declare module "vitest" {
  interface ProvidedContext {
    /** The URL of the test server. Its role may create databases. */
    readonly postgresUrl: string
    /** The migrated template of every test file's database. */
    readonly postgresTemplate: string
    /** The URL of the test server through PgBouncer in transaction mode, with COUNTERSIGN_TEST_POOLER=true; else undefined. */
    readonly pooledUrl: string | undefined
    /** Whether databases look like a Citus cluster, so that its statements are tested. */
    readonly clusterForms: boolean
    /** The seed of all properties. */
    readonly propertySeed: number
  }
}

/** The seed of properties unless COUNTERSIGN_TEST_SEED says otherwise: a failure of the gate is then about the change. */
const FIXED_SEED = 20_261_125

/** Reads COUNTERSIGN_TEST_SEED: a number, `random`, or nothing for the fixed seed. */
const propertySeed = (value: string | undefined): number => {
  if (value === undefined || value === "") return FIXED_SEED
  const seed = value === "random" ? Date.now() % 2 ** 31 : Number(value)
  if (!Number.isInteger(seed)) throw new Error('COUNTERSIGN_TEST_SEED must be "random" or an integer')
  return seed
}

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
  const { url, where } = yield* testServer
  const admin = yield* PgConnection.make({ url })
  const { rows } = yield* admin.query("SELECT current_setting('server_version') AS version")
  yield* dropOldClones(admin)
  const template = yield* databaseName
  yield* Effect.addFinalizer(() => Effect.ignore(admin.query(`DROP DATABASE "${template}" WITH (FORCE)`)))
  yield* admin.query(`CREATE DATABASE "${template}"`)
  const [preloaded] = (yield* admin.query(
    "SELECT current_setting('shared_preload_libraries') AS libraries, current_setting('port') AS port"
  )).rows
  const isCluster = String(preloaded?.["libraries"]).includes("citus")
  if (isCluster) {
    const inside = yield* PgConnection.make({ url: withDatabase(url, template) })
    yield* inside.query("CREATE EXTENSION citus")
    yield* inside.query(`SELECT citus_set_coordinator_host('127.0.0.1', ${String(preloaded?.["port"])})`)
    yield* inside.query(
      "SELECT citus_set_node_property(nodename, nodeport, 'shouldhaveshards', true) FROM pg_dist_node"
    )
  }
  yield* migrate.pipe(Effect.provide(Database.layer({ url: withDatabase(url, template), maxConnections: 1 })))
  if (isCluster) {
    // The extension's own process keeps a connection to the template, which then cannot be cloned.
    yield* admin.query(`ALTER DATABASE "${template}" ALLOW_CONNECTIONS false`)
    yield* admin.query("SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = $1", [
      template
    ])
  }
  const pooler =
    process.env["COUNTERSIGN_TEST_POOLER"] === "true"
      ? yield* startPgBouncer(url, { server_idle_timeout: "5" })
      : undefined
  return {
    url,
    pooledUrl: pooler?.through(url),
    template,
    line: `tests run on PostgreSQL ${String(rows[0]?.["version"])} (${where})${pooler === undefined ? "" : `, through ${pgbouncerVersion()}`}`
  }
})

/**
 * Starts the test server, migrates the template and chooses the properties' seed, once per run. The run fails if no server is available.
 */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const seed = propertySeed(process.env["COUNTERSIGN_TEST_SEED"])
  const scope = Scope.makeUnsafe()
  const close = () => Effect.runPromise(Scope.close(scope, Exit.void))
  const { line, pooledUrl, template, url } = await Effect.runPromise(Scope.provide(prepare, scope)).catch(
    async (error: unknown) => {
      await close()
      throw error
    }
  )
  project.provide("postgresUrl", Redacted.value(url))
  project.provide("postgresTemplate", template)
  project.provide("pooledUrl", pooledUrl === undefined ? undefined : Redacted.value(pooledUrl))
  project.provide("propertySeed", seed)
  process.stdout.write(`${line}\nproperties run with COUNTERSIGN_TEST_SEED=${seed}\n`)
  return close
}
