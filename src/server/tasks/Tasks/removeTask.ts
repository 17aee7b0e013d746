import { Effect } from "effect"
import type { TaskId } from "../../../domain/Ids.ts"
import type { Principal } from "../../../domain/identity/Principal.ts"
import { toDate } from "../../../domain/Time.ts"
import type { Audit } from "../../identity/Audit.ts"
import type { StoreClock } from "../../store/StoreClock.ts"
import type { SqlClient } from "effect/sql"
import { acquireDatasetLock } from "../Datasets/datasetLock.ts"
import { insertDeletion } from "../deletionRows.ts"
import { findTask } from "./rows.ts"

/**
 * Deletes the row of a task, in the caller's transaction, so that everything of it gets 404, and requests the deletion of
 * the rest. With the dataset lock and the lock of the row, no version, release or comparison is being created. Provider
 * keys are deleted at once, and comparisons end.
 */
export const removeTask = Effect.fnUntraced(function* (
  {
    audit,
    clock,
    sql
  }: {
    readonly sql: SqlClient.SqlClient
    readonly audit: Audit["Service"]
    readonly clock: StoreClock["Service"]
  },
  principal: Principal,
  task_id: TaskId
) {
  const { org_id } = principal
  yield* acquireDatasetLock(sql, org_id, task_id)
  yield* findTask(sql, org_id, task_id, "FOR UPDATE")
  const now = yield* clock.now
  yield* sql`
    UPDATE comparisons
    SET status = 'cancelled', failure = 'The task was deleted.', finished_at = ${toDate(now)}
    WHERE org_id = ${org_id}
      AND status = 'running'
      -- Also those of other tasks whose benchmark is a version of this one.
      AND (
        task_id = ${task_id}
        OR dataset_id IN (SELECT dataset_id FROM datasets WHERE org_id = ${org_id} AND task_id = ${task_id})
      )
  `
  yield* sql`
    DELETE FROM provider_keys
    WHERE org_id = ${org_id}
      AND task_id = ${task_id}
  `
  yield* sql`
    DELETE FROM reviewers
    WHERE org_id = ${org_id}
      AND task_id = ${task_id}
  `
  yield* sql`
    DELETE FROM tasks
    WHERE org_id = ${org_id}
      AND task_id = ${task_id}
  `
  const deletion = yield* insertDeletion(sql, principal, { kind: "task", target_id: task_id }, now)
  yield* audit.record(principal, "task.deleted", task_id, { deletion_id: deletion.id })
  return deletion
})
