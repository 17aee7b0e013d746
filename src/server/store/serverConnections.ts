import { Effect } from "effect"
import type { SqlClient } from "effect/sql"

/** Connections to the server, and the strictest limit that applies to the role of this session: of the server, the role or the database. */
export const readServerConnections = (sql: SqlClient.SqlClient) =>
  Effect.map(
    sql<{ readonly all: number; readonly own: number; readonly max: number; readonly ownMax: number }>`
      SELECT
        (SELECT count(*)::int FROM pg_stat_activity WHERE backend_type = 'client backend') AS all,
        (SELECT count(*)::int FROM pg_stat_activity WHERE datname = current_database() AND usename = current_user) AS own,
        (
          current_setting('max_connections')::int
          - current_setting('superuser_reserved_connections')::int
          - coalesce(current_setting('reserved_connections', true), '0')::int
        ) AS max,
        least(
          (SELECT nullif(rolconnlimit, -1) FROM pg_roles WHERE rolname = current_user),
          (SELECT nullif(datconnlimit, -1) FROM pg_database WHERE datname = current_database()),
          2000000000
        )::int AS "ownMax"
    `,
    ([row]) => {
      if (row === undefined) return undefined
      const { all, max, own, ownMax } = row
      return ownMax - own < max - all ? { used: own, limit: ownMax } : { used: all, limit: max }
    }
  )
