import { DateTime, Effect } from "effect"
import type { SqlClient, SqlError } from "effect/sql"
import { type OrgId, uuidTimePrefix } from "../../domain/Ids.ts"
import { onlyOrganization } from "../store/onlyOrganization.ts"

/**
 * Deletes up to `limit` events of a channel older than `cutoff`, organization by organization. Event ids start with
 * their creation time, so the key `(org_id, event_id)` finds them; the table also has `occurred_at`. Returns the number
 * of deleted events. With `org_id`, only events of this organization.
 */
export const expireEvents = (
  sql: SqlClient.SqlClient,
  table: "approval_events" | "approval_mail",
  cutoff: DateTime.Utc,
  limit: number,
  org_id?: OrgId
): Effect.Effect<number, SqlError.SqlError> => {
  const ofOrganization = (column: string) => onlyOrganization(sql, column, org_id)
  return Effect.map(
    sql`
      WITH RECURSIVE organizations_with AS (
        (SELECT org_id FROM ${sql(table)} WHERE true ${ofOrganization("org_id")} ORDER BY org_id LIMIT 1)
        UNION ALL
        SELECT n.org_id
        FROM organizations_with o
        CROSS JOIN LATERAL (
          SELECT org_id
          FROM ${sql(table)}
          WHERE org_id > o.org_id
            ${ofOrganization("org_id")}
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
            ${ofOrganization("e.org_id")}
          ORDER BY event_id
          LIMIT ${limit}::int
        ) e
        LIMIT ${limit}::int
      )
      DELETE FROM ${sql(table)} e
      USING old
      WHERE e.org_id = old.org_id
        AND e.event_id = old.event_id
        ${ofOrganization("e.org_id")}
      RETURNING 1 AS removed
    `.unprepared,
    (rows) => rows.length
  )
}

const EVENT_PREFIX = "evt_"
