import { Effect } from "effect"
import type { SqlClient, Statement } from "effect/sql"
import type { OrgId } from "../../domain/Ids.ts"

/**
 * A text expression that changes with each commit that adds, renews or replaces one of the organization's secrets; triggers count these
 * changes in `secret_changes`. Read the version before the secrets, so that the version is never newer than they are. `org_id` is an id, or
 * the column that contains it.
 */
export const secretsVersion = (sql: SqlClient.SqlClient, org_id: OrgId | Statement.Fragment) => sql`
  coalesce((SELECT change_count FROM secret_changes WHERE org_id = ${org_id}), 0)::text
`

/** Reads the version of the organization's secrets. */
export const readSecretsVersion = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, org_id: OrgId) {
  const rows = yield* sql<{ readonly version: string }>`SELECT ${secretsVersion(sql, org_id)} AS version`
  return rows[0]?.version ?? ""
})
