import type { SqlClient, Statement } from "effect/sql"
import type { Scope } from "../../domain/identity/Scope.ts"
import { type Timestamp, toDate } from "../../domain/Time.ts"
import { grantedScopes } from "./grantedScopes.ts"

const DECIDES: Scope = "approvals.decide"

/** An SQL condition on `api_keys`: the key can decide approvals now. */
export const mayDecide = (sql: SqlClient.SqlClient, now: Timestamp): Statement.Fragment => sql`(
  api_keys.revoked_at IS NULL
  AND (api_keys.expires_at IS NULL OR api_keys.expires_at > ${toDate(now)}::timestamptz)
  AND ${DECIDES} = ANY (${grantedScopes(sql)})
)`
