import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import type { OrgId } from "../../domain/Ids.ts"

/**
 * Raises the revision of an organization's settings, in the caller's transaction, which then replaces them: their row is locked. Returns the
 * new revision. Fails if the settings were changed since the revision `replaced`, unless that is undefined. `initial` are the columns of an
 * organization without settings: its row is created, so that two first requests conflict on it.
 */
export const raiseSettingsRevision = Effect.fnUntraced(function* <E>(
  sql: SqlClient.SqlClient,
  table: "feedback_settings" | "redaction_settings" | "retention_settings",
  initial: { readonly org_id: OrgId; readonly [column: string]: string },
  replaced: number | undefined,
  SettingsChanged: new (problem: { readonly detail: string; readonly current_revision: number }) => E
) {
  const rows = yield* sql<{ readonly revision: number }>`
    INSERT INTO ${sql(table)} ${sql.insert({ ...initial, revision: 1 })}
    ON CONFLICT (org_id) DO UPDATE SET revision = ${sql(table)}.revision + 1
    RETURNING revision
  `
  const revision = rows[0]?.revision ?? 1
  if (replaced === undefined || replaced === revision - 1) return revision
  return yield* Effect.fail(
    new SettingsChanged({
      detail:
        "The settings were changed by another request. Re-read them and send the change with their `revision`.",
      current_revision: revision - 1
    })
  )
})
