import type { SqlClient } from "effect/sql"

/**
 * A condition of background work that takes rows of any organization: the organization of `table` is not moving to or from another
 * installation. Its rows would be refused one transaction later, and found again.
 */
export const notFenced = (sql: SqlClient.SqlClient, table: string) =>
  sql.literal(`NOT EXISTS (
        SELECT FROM organization_moves
        WHERE organization_moves.org_id = ${table}.org_id
          AND is_fenced
      )`)
