import { Effect, Metric } from "effect"
import { SqlClient } from "effect/sql"
import type { MetricCollector } from "../../observability/Metrics.ts"
import {
  databaseConnections,
  databaseConnectionsMax,
  databaseTransactions,
  oldestSnapshot,
  serverConnections,
  serverConnectionsMax,
  xminAge
} from "../../observability/metricDefinitions.ts"
import { readServerConnections } from "../serverConnections.ts"
import { groupOf } from "./ConnectionGroup.ts"
import { transactionCounts } from "./limitTransactions.ts"

const states = ["active", "idle", "in_transaction"] as const

/**
 * Updates the gauges of the database and of this process's connections to it. PostgreSQL shows the snapshot age of other roles' sessions in
 * transactions to every role, but in seconds only to members of `pg_read_all_stats`. The sessions of a connection pooler belong to no process.
 */
export const makeDatabaseCollector = Effect.fnUntraced(function* (options: {
  /** The sum over all pools of the process. */
  readonly maxConnections: number
}): Effect.fn.Return<MetricCollector, never, SqlClient.SqlClient> {
  const sql = yield* SqlClient.SqlClient
  const { applicationName = null } = groupOf(sql).direct
  return Effect.gen(function* () {
    yield* Metric.update(databaseConnectionsMax, options.maxConnections)
    const { open, waiting } = transactionCounts(sql)
    yield* Metric.update(databaseTransactions("open"), open)
    yield* Metric.update(databaseTransactions("waiting"), waiting)

    const rows = yield* sql<{ readonly state: string; readonly count: number }>`
      SELECT
        CASE WHEN state LIKE 'idle in transaction%' THEN 'in_transaction' ELSE state END AS state,
        count(*)::int AS count
      FROM pg_stat_activity
      WHERE application_name = ${applicationName}
        AND usename = current_user
        AND datname = current_database()
      GROUP BY 1
    `
    const counts = new Map(rows.map(({ count, state }) => [state, count]))
    for (const state of states) yield* Metric.update(databaseConnections(state), counts.get(state) ?? 0)

    const server = yield* readServerConnections(sql)
    yield* Metric.update(serverConnections, server?.used ?? 0)
    yield* Metric.update(serverConnectionsMax, server?.limit ?? 0)

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
})
