import { Effect } from "effect"
import { SqlClient, type Statement } from "effect/sql"
import type { OrgId } from "../../domain/Ids.ts"
import { makeLastWrite } from "../store/transaction.ts"

const raise = makeLastWrite("secret_changes", (org_id) =>
  Effect.flatMap(
    SqlClient.SqlClient,
    (sql) => sql`
      INSERT INTO secret_changes AS c (org_id, change_count)
      VALUES (${org_id}, 1)
      ON CONFLICT (org_id) DO UPDATE
      SET change_count = c.change_count + 1
    `
  )
)

/**
 * Raises the version of an organization's secrets when the current transaction commits. Each function that adds, renews or replaces a
 * credential, or the redaction rules, calls it in the same transaction; a test searches the sources. The commit publishes the secret and
 * its version together.
 */
export const raiseSecretsVersion = (org_id: OrgId) => raise(org_id, {})

/**
 * A text expression that changes with each commit that adds, renews or replaces one of the organization's secrets. Read the version before
 * the secrets, so that the version is never newer than they are. `org_id` is an id, or the column that contains it.
 */
export const secretsVersion = (sql: SqlClient.SqlClient, org_id: OrgId | Statement.Fragment) => sql`
  coalesce((SELECT change_count FROM secret_changes WHERE org_id = ${org_id}), 0)::text
`

/** Reads the version of the organization's secrets. */
export const readSecretsVersion = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, org_id: OrgId) {
  const rows = yield* sql<{ readonly version: string }>`SELECT ${secretsVersion(sql, org_id)} AS version`
  return rows[0]?.version ?? ""
})
