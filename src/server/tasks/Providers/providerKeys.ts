import { Effect, Redacted } from "effect"
import type { SqlClient } from "effect/sql"
import type { OrgId, TaskId } from "../../../domain/Ids.ts"
import { type Timestamp, toDate } from "../../../domain/Time.ts"
import { constantTimeEqual } from "../../secrets/constantTimeEqual.ts"
import type { Place, SecretBox } from "../../secrets/SecretBox.ts"

/** The place that a provider key is sealed for. A task has one key per base URL, shared by all its releases, so that it can be replaced. */
export const providerKeyPlace = (org_id: OrgId, task_id: TaskId, base_url: string): Place => ({
  org_id,
  table: "provider_keys",
  row_id: `${task_id} ${base_url}`,
  column: "api_key"
})

/** Seals and stores a task's key for a base URL, and replaces an existing one. */
export const upsertProviderKey = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  box: SecretBox["Service"],
  org_id: OrgId,
  task_id: TaskId,
  base_url: string,
  key: Redacted.Redacted,
  now: Timestamp
) {
  const sealed = yield* box.seal(providerKeyPlace(org_id, task_id, base_url), key)
  yield* sql`
    INSERT INTO provider_keys (org_id, task_id, base_url, api_key, updated_at)
    VALUES (${org_id}, ${task_id}, ${base_url}, ${sealed}, ${toDate(now)})
    ON CONFLICT (org_id, task_id, base_url) DO UPDATE
    SET api_key = excluded.api_key, updated_at = excluded.updated_at
  `
})

/** Finds and unseals the task's key for a base URL. */
export const findProviderKey = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  box: SecretBox["Service"],
  org_id: OrgId,
  task_id: TaskId,
  base_url: string
) {
  const [row] = yield* sql<{ readonly api_key: Uint8Array }>`
    SELECT api_key
    FROM provider_keys
    WHERE org_id = ${org_id}
      AND task_id = ${task_id}
      AND base_url = ${base_url}
  `
  if (row === undefined) return undefined
  return yield* box.unseal(providerKeyPlace(org_id, task_id, base_url), row.api_key)
}, Effect.orDie)

/**
 * Stores a task's key for a base URL if there is none. Returns whether the stored key equals this one. The caller has locked the task's
 * row.
 */
export const insertProviderKey = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  box: SecretBox["Service"],
  org_id: OrgId,
  task_id: TaskId,
  base_url: string,
  key: Redacted.Redacted,
  now: Timestamp
) {
  const stored = yield* findProviderKey(sql, box, org_id, task_id, base_url)
  if (stored !== undefined) return constantTimeEqual(Redacted.value(stored), Redacted.value(key))
  yield* upsertProviderKey(sql, box, org_id, task_id, base_url, key, now)
  return true
})
