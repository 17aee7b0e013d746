import { PgMigrator } from "@effect/sql-pg"
import { Effect, Layer, Schedule } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { isSqlError } from "effect/sql/SqlError"
import { type ClusterUnusable, distributeTables, isDistributed, requireUsableCluster } from "./Cluster.ts"
import { DatabaseOutage } from "../observability/DatabaseOutage.ts"
import { readOnlyError } from "./databaseErrors.ts"
import { transaction } from "./transaction.ts"
import { onDirectConnection } from "./Database.ts"
import { type PoolerMismatch, type PoolerSettings, preparePooler } from "./Database/preparePooler.ts"
import {
  checkNewerSchema,
  hasEveryMigration,
  type SchemaIncompatible,
  type SchemaUnreleased
} from "./Database/schemaVersion.ts"
import { migrations } from "./migrations/index.ts"
import { withoutTimeouts } from "./withoutTimeouts.ts"

/** The key of the advisory lock of migrations: "csgn" in ASCII. No other lock of the database has it. */
const MIGRATION_LOCK = 0x6373676e

const runMigrations = PgMigrator.make({})({
  loader: PgMigrator.fromRecord(migrations),
  table: "schema_migrations"
})

/**
 * Longest wait for the lock of a table, in milliseconds. While a migration waits, such as for a long `pg_dump`, the statements of replicas in
 * service on the table wait behind it; they fail after 2 s.
 */
const LOCK_WAIT_MILLIS = 1_000

/** Pauses after a lock was not granted, in which the statements behind it run. Each attempt repeats the migrations before it. */
const LOCK_RETRIES = Schedule.min([Schedule.exponential("1 second"), Schedule.spaced("30 seconds")])

/** The error of a lock that was not granted in time, of a migration or of the library's own statements. */
const lockTimeout = (
  error: SqlError.SqlError | PgMigrator.MigrationError | SchemaUnreleased | ClusterUnusable
): SqlError.SqlError | undefined => {
  const cause = error._tag === "MigrationError" ? error.cause : error
  return isSqlError(cause) && cause.reason._tag === "LockTimeoutError" ? cause : undefined
}

const migrateOnce = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const clustered = yield* requireUsableCluster(sql)
  const isMigrated = Effect.gen(function* () {
    return (yield* hasEveryMigration(sql)) && (!clustered || (yield* isDistributed(sql)))
  })
  // A replica that migrates has locked the table, so this check may wait for it. In a transaction of its own, because
  // that replica must not wait for this one's lock on the table while this one waits for the advisory lock.
  if (yield* transaction(withoutTimeouts(isMigrated))) return []
  return yield* transaction(
    withoutTimeouts(
      Effect.gen(function* () {
        yield* sql`SELECT pg_advisory_xact_lock(${MIGRATION_LOCK}::bigint)`
        if (yield* isMigrated) return []
        yield* sql`SELECT set_config('lock_timeout', ${String(LOCK_WAIT_MILLIS)}, true)`
        // The library creates the table too, but if that fails, it queries the table in the aborted transaction, and the
        // reason is lost.
        yield* sql`
        CREATE TABLE IF NOT EXISTS schema_migrations (
          migration_id integer PRIMARY KEY,
          created_at timestamptz NOT NULL DEFAULT now(),
          name text NOT NULL
        )
      `
        const applied = yield* runMigrations
        if (clustered) yield* distributeTables(sql)
        return applied.map(([id, name]) => `${String(id).padStart(4, "0")}_${name}`)
      })
    )
  )
})

/** All missing migrations or none. Lets the service go on while a long transaction uses a table that a migration changes. */
const migrateHere = migrateOnce.pipe(
  Effect.tapError((error) =>
    lockTimeout(error) === undefined
      ? Effect.void
      : Effect.logWarning(
          `${error._tag === "MigrationError" ? error.message : "The migration"}: a transaction uses its table for more than ${LOCK_WAIT_MILLIS / 1_000} s. ` +
            "Nothing was changed; trying again. End long transactions, such as a pg_dump (countersign doctor names them)."
        )
  ),
  Effect.retry({ schedule: LOCK_RETRIES, while: (error) => lockTimeout(error) !== undefined })
)

/**
 * Applies the missing migrations and returns their names, on a connection that passes no pooler; a pooler's sessions get their settings
 * before. An advisory lock makes concurrently starting replicas wait for the one that migrates, for as long as it takes. The migrator does
 * not run if none is missing, which is checked before the lock and again under it. It would lock its table exclusively, wait behind a
 * backup that reads the table, and make all readers wait behind itself.
 */
export const migrate = Effect.andThen(preparePooler, onDirectConnection(migrateHere))

/** A new database gets one line instead of one for each of its migrations. */
const logMigrations = (names: ReadonlyArray<string>): Effect.Effect<void> =>
  names.length === 0
    ? Effect.void
    : Effect.annotateLogs(
        Effect.logInfo(
          names.length === 1 ? `Applied migration ${names[0]}` : `Applied ${names.length} migrations`
        ),
        { first: names[0], last: names.at(-1) }
      )

/**
 * Applies the missing migrations. If the database has newer ones than this version, it logs a warning, or fails if one of them is
 * incompatible.
 */
export const layerMigrated: Layer.Layer<
  never,
  | SqlError.SqlError
  | PgMigrator.MigrationError
  | SchemaIncompatible
  | SchemaUnreleased
  | ClusterUnusable
  | PoolerMismatch
  | PoolerSettings,
  SqlClient.SqlClient
> = Layer.effectDiscard(Effect.andThen(Effect.tap(migrate, logMigrations), checkNewerSchema))

/**
 * A readiness check: whether the database responds, accepts writes and has every migration of this version. Migrations
 * are never reverted, so after the first success they are not checked again; a migrating replica may have locked the
 * table of migrations.
 */
export const makeReadiness: Effect.Effect<Effect.Effect<boolean>, never, SqlClient.SqlClient> = Effect.gen(
  function* () {
    const sql = yield* SqlClient.SqlClient
    const { isDown, report } = yield* DatabaseOutage
    let migrated = false
    return Effect.gen(function* () {
      if (isDown()) return false
      const [server] = yield* sql<{ readonly readOnly: boolean }>`
        SELECT current_setting('transaction_read_only') = 'on' AS "readOnly"
      `
      if (server?.readOnly === true) return yield* Effect.fail(readOnlyError)
      migrated ||= yield* hasEveryMigration(sql)
      return migrated
    }).pipe(
      Effect.tapError(report),
      Effect.timeoutOrElse({ duration: "2 seconds", orElse: () => Effect.succeed(false) }),
      Effect.catchCause(() => Effect.succeed(false))
    )
  }
)
