import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import type { OrgId } from "../../domain/Ids.ts"
import type { Timestamp } from "../../domain/Time.ts"
import { mayDecide } from "./mayDecide.ts"

/** The groups of the organization's usable keys that can decide approvals. */
export const findDecidingGroups = (sql: SqlClient.SqlClient, org_id: OrgId, now: Timestamp) =>
  Effect.map(
    sql<{ readonly name: string }>`
      SELECT DISTINCT unnest(groups) AS name
      FROM api_keys
      WHERE org_id = ${org_id}
        AND groups <> '{}'
        AND ${mayDecide(sql, now)}
    `,
    (rows): ReadonlySet<string> => new Set(rows.map(({ name }) => name))
  )
