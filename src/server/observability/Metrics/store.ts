import { Effect, Metric } from "effect"
import type { SqlClient } from "effect/sql"
import { MAX_CONNECTIONS } from "../../store/Database.ts"
import { transactionCounts } from "../../store/Database/transaction.ts"
import { ENGINE_CONNECTIONS } from "../../delivery/Delivery.ts"
import {
  databaseConnections,
  xminAge,
  databaseConnectionsMax,
  oldestSnapshot,
  databaseTransactions
} from "../metricDefinitions.ts"

const states = ["active", "idle", "in_transaction"] as const

/**
 * Sets what the store tells of itself and of this process's connections. Of other roles' sessions PostgreSQL shows the age of their
 * snapshots in transactions to everybody, and in seconds only to members of `pg_read_all_stats`.
 */
export const collectDatabase = Effect.fnUntraced(function* (sql: SqlClient.SqlClient) {
  yield* Metric.update(databaseConnectionsMax, MAX_CONNECTIONS + ENGINE_CONNECTIONS)
  const { open, waiting } = transactionCounts(sql)
  yield* Metric.update(databaseTransactions("open"), open)
  yield* Metric.update(databaseTransactions("waiting"), waiting)

  const held = yield* sql<{ readonly state: string; readonly count: number }>`
    SELECT
      CASE WHEN state LIKE 'idle in transaction%' THEN 'in_transaction' ELSE state END AS state,
      count(*)::int AS count
    FROM pg_stat_activity
    WHERE application_name = current_setting('application_name')
      AND usename = current_user
      AND datname = current_database()
    GROUP BY 1
  `
  const counts = new Map(held.map(({ count, state }) => [state, count]))
  for (const state of states) yield* Metric.update(databaseConnections(state), counts.get(state) ?? 0)

  const [horizon] = yield* sql<{ readonly seconds: number; readonly transactions: number }>`
    SELECT
      coalesce(greatest(
        (
          SELECT max(extract(epoch FROM clock_timestamp() - xact_start))
          FROM pg_stat_activity
          WHERE (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL)
            AND pid <> pg_backend_pid()
            AND (datname = current_database() OR datname IS NULL)
        ),
        (
          SELECT max(extract(epoch FROM clock_timestamp() - prepared))
          FROM pg_prepared_xacts
          WHERE database = current_database()
        )
      ), 0)::float8 AS seconds,
      coalesce(greatest(
        (
          SELECT max(age(backend_xmin))
          FROM pg_stat_activity
          WHERE pid <> pg_backend_pid()
            AND (datname = current_database() OR datname IS NULL)
        ),
        (SELECT max(age(transaction)) FROM pg_prepared_xacts WHERE database = current_database()),
        (SELECT max(age(xmin)) FROM pg_replication_slots)
      ), 0)::int AS transactions
  `
  yield* Metric.update(oldestSnapshot, horizon?.seconds ?? 0)
  yield* Metric.update(xminAge, horizon?.transactions ?? 0)
})
