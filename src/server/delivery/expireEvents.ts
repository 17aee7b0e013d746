import { DateTime, Effect } from "effect"
import type { SqlClient, SqlError } from "effect/sql"
import { uuidTimePrefix } from "../../domain/Ids.ts"

/**
 * Deletes up to `limit` events of a channel older than `cutoff`, organization by organization. Event ids start with
 * their creation time, so the key `(org_id, event_id)` finds them; the table also has `occurred_at`. Returns the number
 * of deleted events.
 */
export const expireEvents = (
  sql: SqlClient.SqlClient,
  table: "approval_events" | "approval_mail",
  cutoff: DateTime.Utc,
  limit: number
): Effect.Effect<number, SqlError.SqlError> =>
  Effect.map(
    sql`
      WITH RECURSIVE organizations_with AS (
        (SELECT org_id FROM ${sql(table)} ORDER BY org_id LIMIT 1)
        UNION ALL
        SELECT n.org_id
        FROM organizations_with o
        CROSS JOIN LATERAL (
          SELECT org_id
          FROM ${sql(table)}
          WHERE org_id > o.org_id
          ORDER BY org_id
          LIMIT 1
        ) n
      ), old AS (
        SELECT o.org_id, e.event_id
        FROM organizations_with o
        CROSS JOIN LATERAL (
          SELECT event_id
          FROM ${sql(table)} e
          WHERE e.org_id = o.org_id
            AND e.event_id < ${EVENT_PREFIX + uuidTimePrefix(cutoff)}
            AND e.occurred_at < ${DateTime.toDateUtc(cutoff)}
          ORDER BY event_id
          LIMIT ${limit}::int
        ) e
        LIMIT ${limit}::int
      )
      DELETE FROM ${sql(table)} e
      USING old
      WHERE e.org_id = old.org_id
        AND e.event_id = old.event_id
      RETURNING 1 AS removed
    `.unprepared,
    (rows) => rows.length
  )

const EVENT_PREFIX = "evt_"
