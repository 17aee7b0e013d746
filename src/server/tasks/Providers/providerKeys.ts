import { Array as Arr, Effect, Option, Redacted } from "effect"
import type { SqlClient } from "effect/sql"
import type { OrgId, TaskId } from "../../../domain/Ids.ts"
import { type Timestamp, toDate } from "../../../domain/Time.ts"
import { constantTimeEqual } from "../../secrets/constantTimeEqual.ts"
import type { Place, SecretBox } from "../../secrets/SecretBox.ts"

/** Where a key is sealed for. A task has one key for a base URL, whatever releases name it: so it can be renewed. */
export const providerKeyPlace = (org_id: OrgId, task_id: TaskId, base_url: string): Place => ({
  org_id,
  table: "provider_keys",
  row_id: `${task_id} ${base_url}`,
  column: "api_key"
})

/** Seals a task's key for a base URL, in place of one that was there. */
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

/** The task's key for a base URL, if it has one. */
export const findProviderKey = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  box: SecretBox["Service"],
  org_id: OrgId,
  task_id: TaskId,
  base_url: string
) {
  const rows = yield* sql<{ readonly api_key: Uint8Array }>`
    SELECT api_key
    FROM provider_keys
    WHERE org_id = ${org_id}
      AND task_id = ${task_id}
      AND base_url = ${base_url}
  `
  const row = Arr.head(rows)
  if (Option.isNone(row)) return Option.none()
  return Option.some(yield* box.unseal(providerKeyPlace(org_id, task_id, base_url), row.value.api_key))
}, Effect.orDie)

/** Seals a task's key for a base URL where it has none; whether that key is the one it now has. Callers hold the task's row. */
export const insertProviderKey = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  box: SecretBox["Service"],
  org_id: OrgId,
  task_id: TaskId,
  base_url: string,
  key: Redacted.Redacted,
  now: Timestamp
) {
  const kept = yield* findProviderKey(sql, box, org_id, task_id, base_url)
  if (Option.isSome(kept)) return constantTimeEqual(Redacted.value(kept.value), Redacted.value(key))
  yield* upsertProviderKey(sql, box, org_id, task_id, base_url, key, now)
  return true
})
