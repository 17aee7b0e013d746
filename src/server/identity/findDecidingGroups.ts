import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import type { OrgId } from "../../domain/Ids.ts"
import type { Scope } from "../../domain/identity/Scope.ts"
import { type Timestamp, toDate } from "../../domain/Time.ts"
import { grantedScopes } from "./grantedScopes.ts"

const DECIDES: Scope = "approvals.decide"

/** The groups of the organization's usable keys that can decide approvals. */
export const findDecidingGroups = (sql: SqlClient.SqlClient, org_id: OrgId, now: Timestamp) =>
  Effect.map(
    sql<{ readonly name: string }>`
      SELECT DISTINCT unnest(groups) AS name
      FROM api_keys
      WHERE org_id = ${org_id}
        AND groups <> '{}'
        AND revoked_at IS NULL
        AND (expires_at IS NULL OR expires_at > ${toDate(now)}::timestamptz)
        AND ${DECIDES} = ANY (${grantedScopes(sql)})
    `,
    (rows): ReadonlySet<string> => new Set(rows.map(({ name }) => name))
  )
