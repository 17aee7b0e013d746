import type { SqlClient } from "effect/sql"

/**
 * SQL of the makers of a key as `text[]`, for statements over `api_keys`: the key that created it, the key that created
 * that one, and so on. A key's makers never change, and `MAX_GENERATIONS` bounds their number. `UNION` ends the
 * recursion even if rows formed a cycle.
 */
export const keyMakers = (sql: SqlClient.SqlClient) => sql.literal(MAKERS)

/** The first keys of a query, and the makers of each: by `next`, those of the row `made`. */
export const withMakers = (first: string, next = "SELECT made.created_by_id AS key_id") => `ARRAY(
  WITH RECURSIVE maker AS (
    SELECT first.key_id
    FROM (${first}) AS first
    UNION
    SELECT next.key_id
    FROM maker
      JOIN api_keys AS made ON made.org_id = api_keys.org_id AND made.key_id = maker.key_id
      CROSS JOIN LATERAL (${next}) AS next
  )
  SELECT key_id
  FROM maker
  WHERE key_id IS NOT NULL
)`

const MAKERS = withMakers("SELECT api_keys.created_by_id AS key_id")
