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

/** The number of the newest applied migration; 0 if the database has no table of migrations. */
const newestMigration = Effect.fnUntraced(function* (sql: SqlClient.SqlClient) {
  if (!(yield* hasTables(sql))) return 0
  const [newest] = yield* sql<{ id: number | null }>`
    SELECT max(migration_id)::int AS id
    FROM schema_migrations
  `
  return newest?.id ?? 0
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

/** Logs a warning if a newer version has migrated the database, which is normal only during a roll-out. */
export const warnOfNewerSchema = Effect.gen(function* () {
  const store = yield* newestMigration(yield* SqlClient.SqlClient)
  if (store <= latestMigration) return
  yield* Effect.logWarning(
    `The database has schema version ${store}, newer than this version's ${latestMigration}: a newer version has migrated it`
  )
})
