import { Effect, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { migrations } from "../migrations/index.ts"

/** The number of this version's newest migration. */
export const latestMigration: number = Math.max(
  ...Object.keys(migrations).map((name) => Number.parseInt(name, 10))
)

/** Whether a database was migrated before. */
export const hasTables = (sql: SqlClient.SqlClient) =>
  Effect.map(
    sql<{ found: boolean }>`SELECT to_regclass('schema_migrations') IS NOT NULL AS found`,
    ([table]) => table?.found === true
  )

/** The database was migrated by a version before 1.0.0, whose migrations were other ones. */
export class SchemaUnreleased extends Schema.TaggedError<SchemaUnreleased>()("SchemaUnreleased", {}) {
  override get message(): string {
    return (
      "the database belongs to an unreleased version of countersign, from before the schema of 1.0.0: " +
      "start over with an empty database, and copy the data that you need with pg_dump; nothing was changed"
    )
  }
}

/**
 * The number of the newest applied migration; 0 if the database has no table of migrations. Fails if the first migration is not this
 * version's.
 */
const newestMigration = Effect.fnUntraced(function* (sql: SqlClient.SqlClient) {
  if (!(yield* hasTables(sql))) return 0
  const [found] = yield* sql<{ newest: number | null; is_unreleased: boolean | null }>`
    SELECT max(migration_id)::int AS newest, bool_or(migration_id = 1 AND name <> 'first_release') AS is_unreleased
    FROM schema_migrations
  `
  if (found?.is_unreleased === true) return yield* new SchemaUnreleased()
  return found?.newest ?? 0
})

/** Whether the database has every migration of this version. */
export const hasEveryMigration = (sql: SqlClient.SqlClient) =>
  Effect.map(newestMigration(sql), (newest) => newest >= latestMigration)

const numbers = { store: Schema.Int, known: Schema.Int }

/** The database lacks migrations of this version. */
export class SchemaOlder extends Schema.TaggedError<SchemaOlder>()("SchemaOlder", numbers) {
  override get message(): string {
    return `the database has schema version ${this.store}, but this version of countersign needs ${this.known}: run countersign migrate`
  }
}

/** The database was migrated by a newer version. */
export class SchemaNewer extends Schema.TaggedError<SchemaNewer>()("SchemaNewer", numbers) {
  override get message(): string {
    return `the database has schema version ${this.store}, but this version of countersign supports ${this.known} at most: run the version that migrated it`
  }
}

/** Fails unless the database has exactly the schema of this version. For commands that must not migrate. */
export const requireSameSchema = Effect.gen(function* () {
  const store = yield* newestMigration(yield* SqlClient.SqlClient)
  const versions = { store, known: latestMigration }
  if (store < latestMigration) return yield* new SchemaOlder(versions)
  if (store > latestMigration) return yield* new SchemaNewer(versions)
})

/** Ends the name of a migration with which older versions do not work: their replicas must be stopped before it. */
const INCOMPATIBLE = "_incompatible"

/** A newer version has applied a migration with which this version does not work. */
export class SchemaIncompatible extends Schema.TaggedError<SchemaIncompatible>()("SchemaIncompatible", {
  migration: Schema.String
}) {
  override get message(): string {
    return (
      `a newer version of countersign has applied migration ${this.migration} to the database, with which this version does not work: ` +
      "run the newer version, or restore the backup from before the upgrade"
    )
  }
}

/**
 * Checks a database that a newer version has migrated, which is normal during a roll-out and after going back one release: logs a warning, or
 * fails if a migration is incompatible with this version.
 */
export const checkNewerSchema = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const newer = yield* sql<{ readonly id: number; readonly name: string }>`
    SELECT migration_id::int AS id, name
    FROM schema_migrations
    WHERE migration_id > ${latestMigration}
    ORDER BY migration_id
  `
  const newest = newer.at(-1)
  if (newest === undefined) return
  const incompatible = newer.find(({ name }) => name.endsWith(INCOMPATIBLE))
  if (incompatible !== undefined) {
    return yield* new SchemaIncompatible({
      migration: `${String(incompatible.id).padStart(4, "0")}_${incompatible.name}`
    })
  }
  yield* Effect.logWarning(
    `The database has schema version ${newest.id}, newer than this version's ${latestMigration}: a newer version has migrated it`
  )
})
