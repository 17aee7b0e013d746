import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { DatasetBusy } from "../../../api/Problems.ts"
import type { OrgId, TaskId } from "../../../domain/Ids.ts"
import { withoutTimeouts } from "../../store/withoutTimeouts.ts"

/** "csgt" in ASCII: the seed of dataset lock numbers. They collide with another advisory lock only with a probability of 2^-64. */
const DATASET_LOCK = 0x63736774

/** Most changes take less than a second; an import of a million examples takes minutes. */
const RETRY_AFTER_SECONDS = 10

const lockNumber = (sql: SqlClient.SqlClient, org_id: OrgId, task_id: TaskId) =>
  sql`hashtextextended(${`${org_id}/${task_id}`}::text, ${DATASET_LOCK}::bigint)`

/**
 * Waits for the lock of a task's dataset and keeps it until the caller's transaction ends. Meanwhile no other transaction creates a version
 * of the dataset or changes the task's schemas. It is an advisory lock and not a row lock, because creating a version may take minutes, in
 * which runs and other changes of the task continue. Acquire it before any row lock, so that no transaction waits for it while holding a
 * row that its owner will need. Fails with `DATASET_BUSY` after the lock timeout of the connection.
 */
export const acquireDatasetLock = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  task_id: TaskId
): Effect.Effect<void, DatasetBusy> =>
  sql`SELECT pg_advisory_xact_lock(${lockNumber(sql, org_id, task_id)})`.pipe(
    Effect.asVoid,
    Effect.catch((error) => (error.reason._tag === "LockTimeoutError" ? datasetBusy : Effect.die(error)))
  )

/**
 * Like `acquireDatasetLock`, for an operator's command: waits for as long as other changes take, and logs that it waits.
 */
export const awaitDatasetLock = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  task_id: TaskId
) {
  if (yield* tryAcquireDatasetLock(sql, org_id, task_id)) return
  yield* Effect.logInfo("Waiting for another change of the task's dataset to finish")
  yield* withoutTimeouts(sql`SELECT pg_advisory_xact_lock(${lockNumber(sql, org_id, task_id)})`).pipe(
    Effect.provideService(SqlClient.SqlClient, sql),
    Effect.orDie
  )
})

/** The problem of a change that waited too long for another change of the dataset, which may take minutes. */
export const datasetBusy: Effect.Effect<never, DatasetBusy> = Effect.fail(
  new DatasetBusy({
    detail:
      "Another change of the task's dataset, such as an import, is in progress. Retry when it has finished.",
    retry_after_seconds: RETRY_AFTER_SECONDS
  })
)

/** Like `acquireDatasetLock`, without waiting: returns `false` if another transaction has the lock. */
export const tryAcquireDatasetLock = (sql: SqlClient.SqlClient, org_id: OrgId, task_id: TaskId) =>
  sql<{ readonly acquired: boolean }>`
    SELECT pg_try_advisory_xact_lock(${lockNumber(sql, org_id, task_id)}) AS acquired
  `.pipe(
    Effect.map(([row]) => row?.acquired === true),
    Effect.orDie
  )

/** Like `acquireDatasetLock`, without waiting: fails with `DATASET_BUSY` at once if another transaction has the lock. */
export const acquireFreeDatasetLock = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  task_id: TaskId
): Effect.Effect<void, DatasetBusy> =>
  Effect.flatMap(tryAcquireDatasetLock(sql, org_id, task_id), (acquired) =>
    acquired ? Effect.void : datasetBusy
  )
