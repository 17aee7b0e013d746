import { Effect, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { migrations } from "../migrations/index.ts"

/** The number of the newest migration this code knows. */
const latestMigration: number = Math.max(...Object.keys(migrations).map((name) => Number.parseInt(name, 10)))

/** The number of the newest migration that the store has; 0 where it has none, and then no table of them either. */
const newestMigration = Effect.fnUntraced(function* (sql: SqlClient.SqlClient) {
  const [table] = yield* sql<{ there: boolean }>`SELECT to_regclass('schema_migrations') IS NOT NULL AS there`
  if (table?.there !== true) return 0
  const [newest] = yield* sql<{ id: number | null }>`
    SELECT max(migration_id)::int AS id
    FROM schema_migrations
  `
  return newest?.id ?? 0
})

/** Whether the store has every migration this code knows. */
export const hasEveryMigration = (sql: SqlClient.SqlClient) =>
  Effect.map(newestMigration(sql), (newest) => newest >= latestMigration)

const numbers = { store: Schema.Int, known: Schema.Int }

/** The store lacks migrations. */
export class SchemaOlder extends Schema.TaggedError<SchemaOlder>()("SchemaOlder", numbers) {
  override get message(): string {
    return `the store's schema is ${this.store}, and this version works on ${this.known}: run countersign migrate`
  }
}

/** The store was migrated by a later version. */
export class SchemaNewer extends Schema.TaggedError<SchemaNewer>()("SchemaNewer", numbers) {
  override get message(): string {
    return `the store's schema is ${this.store}, and this version knows none past ${this.known}: run the version that migrated it`
  }
}

/** Fails unless the store's schema is the one of this code. Changes nothing: for commands that are no reason to migrate. */
export const requireSameSchema = Effect.gen(function* () {
  const store = yield* newestMigration(yield* SqlClient.SqlClient)
  const both = { store, known: latestMigration }
  if (store < latestMigration) return yield* new SchemaOlder(both)
  if (store > latestMigration) return yield* new SchemaNewer(both)
})

/** Says so where a later version has migrated the store: allowed while replicas are replaced, and no state to stay in. */
export const warnOfNewerSchema = Effect.gen(function* () {
  const store = yield* newestMigration(yield* SqlClient.SqlClient)
  if (store <= latestMigration) return
  yield* Effect.logWarning(
    `The store's schema is ${store}, and this version knows none past ${latestMigration}: a later version has migrated it`
  )
})
