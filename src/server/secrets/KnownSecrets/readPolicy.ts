import { Effect, Result, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import type { OrgId } from "../../../domain/Ids.ts"
import { compilePolicy, noPolicy } from "../../../domain/redaction/RedactionPolicy.ts"
import { RedactionRules } from "../../../domain/redaction/RedactionRules.ts"
import { rowsOf } from "../../store/rows.ts"

const rulesRows = rowsOf(Schema.Struct({ rules: RedactionRules }))

/**
 * Reads and compiles the organization's redaction rules. Rules that no longer compile are a defect: a text must not be stored without them.
 */
export const readPolicy = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, org_id: OrgId) {
  const row = yield* rulesRows.first(sql`SELECT rules FROM redaction_settings WHERE org_id = ${org_id}`)
  if (row === undefined) return noPolicy
  const policy = compilePolicy(row.rules)
  if (Result.isSuccess(policy)) return policy.success
  const places = policy.failure.map(({ pointer }) => pointer).join(", ")
  return yield* Effect.die(new Error(`Stored redaction rules of ${org_id} do not compile: ${places}`))
})
