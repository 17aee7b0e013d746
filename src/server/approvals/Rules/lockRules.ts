import { Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import type { OrgId } from "../../../domain/Ids.ts"
import { rowsOf } from "../../store/rows.ts"
import { ApprovalRule } from "../../../domain/approvals/ApprovalRule.ts"

const lockedRows = rowsOf(
  Schema.Struct({ shadow_revision: Schema.Int, shadow_rules: Schema.NullOr(Schema.Array(ApprovalRule)) })
)

/**
 * Locks the organization's lists until the transaction ends, and returns the shadow list. For the time before stored rules are read: a
 * concurrent request must not add conditions that this one then removes unseen.
 */
export const lockRules = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, org_id: OrgId) {
  // Creates the row of an organization without rules, so that two first lists conflict on it.
  yield* sql`
    INSERT INTO approval_rules (org_id, revision, rules)
    VALUES (${org_id}, 0, '[]')
    ON CONFLICT (org_id) DO NOTHING
  `
  const row = yield* lockedRows.first(sql`
    SELECT shadow_revision::int, shadow_rules
    FROM approval_rules
    WHERE org_id = ${org_id}
    FOR NO KEY UPDATE
  `)
  return row ?? { shadow_revision: 0, shadow_rules: null }
})
