import { PgConnection, type PgClient } from "@effect/sql-pg"
import { Clock, Context, Effect, Layer, Redacted, type Scope } from "effect"
import type { SqlClient } from "effect/sql"
import { randomBytes } from "node:crypto"
import { inject } from "vitest"
import * as Database from "../../src/server/store/Database.ts"
import { migrate } from "../../src/server/store/migrate.ts"
import { preparePooler } from "../../src/server/store/Database/preparePooler.ts"

/** Prefix of test databases; the creation time in seconds and a random suffix follow. */
export const PREFIX = "countersign_test_"

/** An older database without connections is left over from a killed run. */
export const MAX_CLONE_AGE_SECONDS = 3600

/** A new name of a test database. */
export const databaseName = Effect.map(
  Clock.currentTimeMillis,
  (millis) => `${PREFIX}${Math.floor(millis / 1000)}_${randomBytes(6).toString("hex")}`
)

/** The URL of another database on the same server. */
export const withDatabase = (url: Redacted.Redacted, database: string): Redacted.Redacted => {
  const other = new URL(Redacted.value(url))
  other.pathname = `/${database}`
  other.searchParams.delete("dbname")
  return Redacted.make(other.href)
}

const admin = Effect.suspend(() => PgConnection.make({ url: Redacted.make(inject("postgresUrl")) }))

/**
 * Creates a migrated, empty database and returns its URL. It is dropped when the scope closes, with its open connections. The strategy
 * `file_copy` takes 30 ms if commits do not wait for the disk, half as long as `wal_log`. Failures are defects.
 */
export const cloneDatabase: Effect.Effect<Redacted.Redacted, never, Scope.Scope> = Effect.gen(function* () {
  // The real clock, not a TestClock: left-over databases are found by the time in their names.
  const name = yield* Effect.provideService(databaseName, Clock.Clock, realClock)
  yield* Effect.acquireRelease(
    Effect.scoped(
      Effect.flatMap(admin, (connection) =>
        connection.query(
          `CREATE DATABASE "${name}" TEMPLATE "${inject("postgresTemplate")}" STRATEGY file_copy`
        )
      )
    ),
    () =>
      Effect.ignore(
        Effect.scoped(
          Effect.flatMap(admin, (connection) => connection.query(`DROP DATABASE "${name}" WITH (FORCE)`))
        )
      )
  )
  const url = withDatabase(Redacted.make(inject("postgresUrl")), name)
  if (inject("clusterForms")) yield* pretendCluster(url, name)
  return url
}).pipe(Effect.orDie)

/**
 * Makes the service take a database for a Citus cluster, whose statements PostgreSQL runs too: views by which it finds the extension, in a schema
 * that is searched before the catalog.
 */
const pretendCluster = (url: Redacted.Redacted, name: string) =>
  Effect.scoped(
    Effect.flatMap(PgConnection.make({ url }), (connection) =>
      Effect.forEach(
        [
          "CREATE VIEW public.pg_extension AS SELECT 'citus'::name AS extname, '13.2-1'::text AS extversion",
          "CREATE VIEW public.pg_dist_local_group AS SELECT 0 AS groupid",
          "CREATE VIEW public.pg_dist_node AS SELECT 0 AS groupid, '127.0.0.1'::text AS nodename",
          `CREATE VIEW public.pg_dist_partition AS
             SELECT 'public.agent_sessions'::regclass AS logicalrelid, 'h'::"char" AS partmethod`,
          `ALTER DATABASE "${name}" SET search_path = public, pg_catalog`
        ],
        (statement) => connection.query(statement),
        { discard: true }
      )
    )
  )

/** Like `cloneDatabase`, of a Turkish installation: the lower case of `I` is not `i`, and dates are written in the German way. */
export const turkishDatabase: Effect.Effect<Redacted.Redacted, never, Scope.Scope> = Effect.gen(function* () {
  const name = yield* Effect.provideService(databaseName, Clock.Clock, realClock)
  const run = (...statements: ReadonlyArray<string>) =>
    Effect.scoped(
      Effect.flatMap(admin, (connection) =>
        Effect.forEach(statements, (statement) => connection.query(statement), { discard: true })
      )
    )
  yield* Effect.acquireRelease(
    run(
      `CREATE DATABASE "${name}" TEMPLATE template0 ENCODING 'UTF8' LOCALE_PROVIDER icu ICU_LOCALE 'tr-TR'`,
      `ALTER DATABASE "${name}" SET datestyle = 'German, DMY'`
    ),
    () => Effect.ignore(run(`DROP DATABASE "${name}" WITH (FORCE)`))
  )
  const url = withDatabase(Redacted.make(inject("postgresUrl")), name)
  yield* migrate.pipe(Effect.provide(Database.layer({ url, maxConnections: 1 })))
  return url
}).pipe(Effect.orDie)

/** How the service connects to a database of the test server: through PgBouncer if the run has one. */
export const connectionOf = (
  url: Redacted.Redacted
): { readonly url: Redacted.Redacted; readonly directUrl?: Redacted.Redacted } => {
  const pooled = inject("pooledUrl")
  if (pooled === undefined) return { url }
  return {
    url: withDatabase(Redacted.make(pooled), new URL(Redacted.value(url)).pathname.slice(1)),
    directUrl: url
  }
}

/** The same as options of `Countersign.layer`. */
export const serviceDatabase = (
  url: Redacted.Redacted
): { readonly databaseUrl: Redacted.Redacted; readonly environment: Readonly<Record<string, string>> } => {
  const connection = connectionOf(url)
  return {
    databaseUrl: connection.url,
    environment:
      connection.directUrl === undefined
        ? {}
        : { COUNTERSIGN_DIRECT_DATABASE_URL: Redacted.value(connection.directUrl) }
  }
}

const realClock = Context.get(Context.empty(), Clock.Clock)

/** The database of one test file. */
export class TestDatabase extends Context.Service<
  TestDatabase,
  {
    /** For a second client or another process. */
    readonly url: Redacted.Redacted
  }
>()("countersign/test/TestDatabase") {
  /** A fresh clone. */
  static readonly layer = Layer.effect(
    TestDatabase,
    Effect.map(cloneDatabase, (url) => TestDatabase.of({ url }))
  )

  /**
   * A fresh clone and the service's own client on it. Build it with the real clock: `layer(TestDatabase.layerSql, {
   * excludeTestServices: true })`.
   */
  static readonly layerSql: Layer.Layer<TestDatabase | PgClient.PgClient | SqlClient.SqlClient> = Layer.orDie(
    Layer.effectDiscard(preparePooler)
  ).pipe(
    Layer.provideMerge(
      Layer.unwrap(Effect.map(TestDatabase, ({ url }) => Layer.orDie(Database.layer(connectionOf(url)))))
    ),
    Layer.provideMerge(TestDatabase.layer)
  )
}
