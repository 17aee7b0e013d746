import { PgMigrator } from "@effect/sql-pg"
import { Effect, Layer } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { transaction } from "./transaction.ts"
import { hasEveryMigration, warnOfNewerSchema } from "./schemaVersion.ts"
import { migrations } from "../migrations/index.ts"

/** Any 64-bit number that no other user of the database takes: "csgn" in ASCII. */
const MIGRATION_LOCK = 0x6373676e

/**
 * Applies the migrations that the store lacks, under an advisory lock: of several processes that start at once one
 * migrates and the others wait for it. Where none is lacking, nothing else is locked: the migrator would lock its table against
 * everybody, wait for a backup that reads it, and have all who read it wait behind itself. Answers with the names of those applied.
 */
export const migrate = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  return yield* transaction(
    Effect.gen(function* () {
      yield* sql`SET LOCAL statement_timeout = 0`
      yield* sql`SET LOCAL lock_timeout = 0`
      yield* sql`SELECT pg_advisory_xact_lock(${MIGRATION_LOCK}::bigint)`
      if (yield* hasEveryMigration(sql)) return []
      const applied = yield* runMigrations
      return applied.map(([id, name]) => `${String(id).padStart(4, "0")}_${name}`)
    })
  )
})

const runMigrations = PgMigrator.make({})({
  loader: PgMigrator.fromRecord(migrations),
  table: "schema_migrations"
})

/** Applies the migrations while the layer is built, and says so where the store has later ones. */
export const layerMigrated: Layer.Layer<
  never,
  SqlError.SqlError | PgMigrator.MigrationError,
  SqlClient.SqlClient
> = Layer.effectDiscard(Effect.andThen(migrate, warnOfNewerSchema))

/**
 * A question to the store: whether it answers and has every migration this code knows. Once it had, it only has to answer: none is ever
 * taken back, and a process that migrates locks the table of them.
 */
export const makeReadiness: Effect.Effect<Effect.Effect<boolean>, never, SqlClient.SqlClient> = Effect.map(
  SqlClient.SqlClient,
  (sql) => {
    let migrated = false
    return Effect.gen(function* () {
      if (migrated) yield* sql`SELECT 1`
      else migrated = yield* hasEveryMigration(sql)
      return migrated
    }).pipe(
      Effect.timeoutOrElse({ duration: "2 seconds", orElse: () => Effect.succeed(false) }),
      Effect.catchCause(() => Effect.succeed(false))
    )
  }
)
