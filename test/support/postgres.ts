import { PgConnection, type PgClient } from "@effect/sql-pg"
import { Clock, Context, Effect, Layer, Redacted, type Scope } from "effect"
import type { SqlClient } from "effect/sql"
import { randomBytes } from "node:crypto"
import { inject } from "vitest"
import * as Database from "../../src/server/store/Database.ts"

/** Databases of tests: the prefix, the second they were made, and a random end. */
export const PREFIX = "countersign_test_"

/** A database that nobody is connected to and that is older than this was left by a run that was killed. */
export const MAX_CLONE_AGE_SECONDS = 3600

/** A new name for a database. */
export const databaseName = Effect.map(
  Clock.currentTimeMillis,
  (millis) => `${PREFIX}${Math.floor(millis / 1000)}_${randomBytes(6).toString("hex")}`
)

/** The same server, another database. */
export const withDatabase = (url: Redacted.Redacted, database: string): Redacted.Redacted => {
  const other = new URL(Redacted.value(url))
  other.pathname = `/${database}`
  other.searchParams.delete("dbname")
  return Redacted.make(other.href)
}

const admin = Effect.suspend(() => PgConnection.make({ url: Redacted.make(inject("postgresUrl")) }))

/**
 * A migrated, empty database of its own, dropped when the scope closes; whoever is still connected then is thrown
 * out. Answers with its URL. Copying files takes 30 ms where commits do not wait for the disk, half of what copying by
 * the log takes. What this cannot do is a defect: a test can do nothing about it.
 */
export const cloneDatabase: Effect.Effect<Redacted.Redacted, never, Scope.Scope> = Effect.gen(function* () {
  // The real clock, also where a test holds its own: names are judged by their age.
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
  return withDatabase(Redacted.make(inject("postgresUrl")), name)
}).pipe(Effect.orDie)

const realClock = Context.get(Context.empty(), Clock.Clock)

/** The database of one test file, as a service and as a client over it. */
export class TestDatabase extends Context.Service<
  TestDatabase,
  {
    /** What a second client, or a process of its own, connects to. */
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
  static readonly layerSql: Layer.Layer<TestDatabase | PgClient.PgClient | SqlClient.SqlClient> =
    Layer.unwrap(Effect.map(TestDatabase, ({ url }) => Layer.orDie(Database.layer({ url })))).pipe(
      Layer.provideMerge(TestDatabase.layer)
    )
}
