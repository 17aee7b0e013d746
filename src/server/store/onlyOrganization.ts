import type { SqlClient, Statement } from "effect/sql"
import type { OrgId } from "../../domain/Ids.ts"

/**
 * The end of a condition: that `column` is this organization, so that its node of a cluster runs the statement. Without one, it is empty: on
 * PostgreSQL one statement serves the requests of many organizations.
 */
export const onlyOrganization = (
  sql: SqlClient.SqlClient,
  column: string,
  org_id: OrgId | undefined
): Statement.Fragment =>
  org_id === undefined ? sql.literal("") : sql`AND ${sql.literal(column)} = ${org_id}`

/** The organization of all these rows, if they have one. */
export const sameOrganization = (rows: Iterable<{ readonly org_id: OrgId }>): OrgId | undefined => {
  const ids = new Set(Array.from(rows, ({ org_id }) => org_id))
  const [first] = ids
  return ids.size === 1 ? first : undefined
}
