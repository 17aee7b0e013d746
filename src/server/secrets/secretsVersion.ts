import { Array as Arr, Effect } from "effect"
import { SqlClient, type Statement } from "effect/sql"
import type { OrgId } from "../../domain/Ids.ts"
import { textArray } from "../store/pgArrays.ts"
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

/** Reads the versions of the secrets of organizations, in their order. `org_id`: the only one, on a cluster. */
export const readSecretsVersions = (
  sql: SqlClient.SqlClient,
  organizations: ReadonlyArray<OrgId>,
  org_id: OrgId | undefined
) =>
  Effect.map(
    sql<{ readonly org_id: string; readonly version: string }>`
      SELECT org_id, change_count::text AS version
      FROM secret_changes
      WHERE ${org_id === undefined ? sql`org_id = ANY(${textArray(Arr.dedupe(organizations))}::text[])` : sql`org_id = ${org_id}`}
    `,
    (rows) => {
      const versions = new Map(rows.map((row) => [row.org_id, row.version]))
      return organizations.map((one) => versions.get(one) ?? "0")
    }
  )
