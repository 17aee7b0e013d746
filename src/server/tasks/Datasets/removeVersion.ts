import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import { notFound } from "../../../api/notFound.ts"
import { DatasetInUse } from "../../../api/Problems.ts"
import type { DatasetId, OrgId, TaskId } from "../../../domain/Ids.ts"
import type { Principal } from "../../../domain/identity/Principal.ts"
import { currentTime } from "../../store/currentTime.ts"
import type { Audit } from "../../identity/Audit.ts"
import { rowBytes, type StoredUsage } from "../../identity/StoredUsage.ts"
import type { StoreClock } from "../../store/StoreClock.ts"
import { insertDeletion } from "../deletionRows.ts"
import { getRelease } from "../Releases/rows.ts"
import { findTask } from "../Tasks/rows.ts"
import { acquireDatasetLock } from "./datasetLock.ts"
import { findVersion } from "./versionRows.ts"
import { hasRow } from "../../store/rows.ts"

/**
 * Deletes the row of a dataset version, in the caller's transaction, so that it gets 404, and requests the deletion of
 * the examples that no other version has. Fails if the version is in use. Releases and comparisons are created with a
 * lock on the task's row, so none that uses the version is being created.
 */
export const removeVersion = Effect.fnUntraced(function* (
  {
    audit,
    clock,
    sql,
    usage
  }: {
    readonly sql: SqlClient.SqlClient
    readonly audit: Audit["Service"]
    readonly clock: StoreClock["Service"]
    readonly usage: StoredUsage["Service"]
  },
  principal: Principal,
  task_id: TaskId,
  id: DatasetId
) {
  const { org_id } = principal
  yield* acquireDatasetLock(sql, org_id, task_id)
  const task = yield* findTask(sql, org_id, task_id, "FOR NO KEY UPDATE")
  const row = yield* findVersion(sql, org_id, id)
  if (row === undefined) return yield* notFound("dataset")
  const now = yield* clock.now
  const live = yield* getRelease(sql, org_id, task.live_release_id)
  if (live.dataset_id === id)
    return yield* inUse("The live release uses this version. Release another one first.")
  const canary =
    task.canary_release_id === null ? undefined : yield* getRelease(sql, org_id, task.canary_release_id)
  if (canary?.dataset_id === id)
    return yield* inUse("The canary uses this version. Promote or stop the canary first.")
  if (task.dataset_id === id) {
    return yield* inUse(
      "This is the newest version, which the next one is based on. Create the next version without the examples, then delete this one; or delete the task."
    )
  }
  if ((yield* isCompared(sql, clock, org_id, task_id, id)) || (yield* isBenchmark(sql, org_id, id))) {
    return yield* inUse("A running comparison uses this version. Wait for it, or cancel it.")
  }
  yield* sql`
    DELETE FROM datasets
    WHERE org_id = ${org_id}
      AND dataset_id = ${id}
  `
  yield* sql.afterCommit(Effect.sync(() => usage.add(org_id, { bytes: -rowBytes.version })))
  const { version } = row
  const deletion = yield* insertDeletion(
    sql,
    principal,
    { kind: "dataset", target_id: id, task_id, version },
    now
  )
  yield* audit.record(principal, "dataset.deleted", id, { task_id, version, deletion_id: deletion.id })
  return deletion
})

const inUse = (detail: string) => Effect.fail(new DatasetInUse({ detail }))

/** Whether a running comparison compares the version, perhaps of another task. */
const isBenchmark = (sql: SqlClient.SqlClient, org_id: OrgId, id: DatasetId) =>
  hasRow(sql`
    SELECT 1 AS found
    FROM comparisons
    WHERE org_id = ${org_id}
      AND status = 'running'
      AND dataset_id = ${id}
    LIMIT 1
  `)

/** Whether a comparison of the task is running over the version, or was cancelled and still records its last batch. */
const isCompared = (
  sql: SqlClient.SqlClient,
  clock: StoreClock["Service"],
  org_id: OrgId,
  task_id: TaskId,
  id: DatasetId
) =>
  hasRow(sql`
    SELECT 1 AS found
    FROM comparisons
      JOIN releases ON releases.org_id = comparisons.org_id AND releases.release_id = comparisons.live_release_id
    WHERE comparisons.org_id = ${org_id}
      AND comparisons.task_id = ${task_id}
      AND ${id} IN (comparisons.dataset_id, candidate_dataset_id, releases.dataset_id)
      AND (status = 'running' OR (status = 'cancelled' AND lease_until > ${currentTime(sql, clock)}))
    LIMIT 1
  `)
