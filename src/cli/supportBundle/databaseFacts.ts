import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import * as Database from "../../server/store/Database.ts"
import { hasTables } from "../../server/store/Database/schemaVersion.ts"
import { migrations } from "../../server/store/migrations/index.ts"

/** The settings of PostgreSQL that a bundle shows. None is a path, an address or a text of the operator. */
const SERVER_SETTINGS = [
  "server_version",
  "max_connections",
  "superuser_reserved_connections",
  "shared_buffers",
  "effective_cache_size",
  "work_mem",
  "maintenance_work_mem",
  "max_wal_size",
  "wal_level",
  "fsync",
  "synchronous_commit",
  "full_page_writes",
  "default_transaction_isolation",
  "default_transaction_read_only",
  "max_prepared_transactions",
  "max_locks_per_transaction",
  "deadlock_timeout",
  "idle_in_transaction_session_timeout",
  "statement_timeout",
  "lock_timeout",
  "autovacuum",
  "autovacuum_naptime",
  "autovacuum_max_workers",
  "autovacuum_freeze_max_age",
  "random_page_cost",
  "jit",
  "track_counts",
  "server_encoding",
  "TimeZone"
]

/** Statement timeout, in milliseconds. */
const STATEMENT_MILLIS = 10_000

/** The most tables that are listed, the largest first. */
const MAX_TABLES = 500

const migrationNames = new Map(Object.keys(migrations).map((name) => [Number.parseInt(name, 10), name]))

/** Facts about the database, without a row of an organization: numbers, settings of a closed list, and names of tables and migrations. */
const readFacts = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const settings = yield* sql`
    SELECT name, setting, unit
    FROM pg_settings
    WHERE name = ANY(${SERVER_SETTINGS}::text[])
    ORDER BY name
  `
  const tables = yield* sql`
    SELECT
      c.relname AS table,
      pg_total_relation_size(c.oid)::float8 AS bytes,
      pg_indexes_size(c.oid)::float8 AS index_bytes,
      c.reltuples::float8 AS estimated_rows,
      s.n_dead_tup::float8 AS dead_rows,
      s.last_autovacuum::text AS last_autovacuum,
      s.last_autoanalyze::text AS last_autoanalyze
    FROM pg_class c
    JOIN pg_namespace n ON n.oid = c.relnamespace
    LEFT JOIN pg_stat_user_tables s ON s.relid = c.oid
    WHERE n.nspname = ANY(current_schemas(false)) AND c.relkind = 'r'
    ORDER BY 2 DESC
    LIMIT ${MAX_TABLES}
  `
  const activity = yield* sql`
    SELECT backend_type, state, wait_event_type, wait_event, count(*)::int AS count
    FROM pg_stat_activity
    WHERE datname = current_database()
    GROUP BY 1, 2, 3, 4
    ORDER BY 5 DESC
  `
  const applied = (yield* hasTables(sql))
    ? yield* sql<{ readonly id: number; readonly created_at: string }>`
        SELECT migration_id::int AS id, created_at::text
        FROM schema_migrations
        ORDER BY migration_id
      `
    : []
  const queue =
    applied.length === 0
      ? []
      : yield* sql`
          SELECT
            channel,
            count(*)::int AS waiting,
            coalesce(extract(epoch FROM clock_timestamp() - min(due_at)), 0)::float8 AS oldest_due_seconds
          FROM delivery_queue
          GROUP BY channel
        `
  return {
    "postgres.json": { settings, activity },
    "tables.json": tables,
    "migrations.json": applied.map(({ created_at, id }) => ({
      id,
      name: migrationNames.get(id) ?? null,
      created_at
    })),
    "queue.json": queue
  }
})

/** The files about the database. */
export const databaseFacts = (options: Pick<Database.DatabaseOptions, "url" | "directUrl">) =>
  Effect.scoped(
    Effect.flatMap(
      Layer.build(
        Database.layer({ ...options, maxConnections: 1, statementTimeoutMillis: STATEMENT_MILLIS })
      ),
      (context) => Effect.provide(readFacts, context)
    )
  ).pipe(Effect.timeout("30 seconds"))
