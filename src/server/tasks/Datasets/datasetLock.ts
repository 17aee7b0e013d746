import { Effect } from "effect"
import type { SqlClient, SqlError } from "effect/sql"
import type { OrgId, TaskId } from "../../../domain/Ids.ts"
import { permitTimeout } from "../../store/Database/databaseErrors.ts"
import { isInTransaction } from "../../store/Database/transaction.ts"
import { makeKeyedSemaphore } from "../../concurrency/KeyedSemaphore.ts"

/** "csgt" in ASCII: seeds the numbers of datasets' locks, which no other lock has but by a chance of one in 2^64. */
const DATASET_LOCK = 0x63736774

const lockOf = (sql: SqlClient.SqlClient, org_id: OrgId, task_id: TaskId) =>
  sql`hashtextextended(${`${org_id}/${task_id}`}::text, ${DATASET_LOCK}::bigint)`

/**
 * Holds a task's dataset to the end of the caller's transaction: nobody else makes a version of it, and the task's shapes stay as they are.
 * A version may take minutes to make, so no row is held: runs, and what else changes the task, go on meanwhile. It is taken before any row, so
 * that nobody waits for it who holds what its holder will need.
 */
export const acquireDatasetLock = (sql: SqlClient.SqlClient, org_id: OrgId, task_id: TaskId) =>
  Effect.asVoid(Effect.orDie(sql`SELECT pg_advisory_xact_lock(${lockOf(sql, org_id, task_id)})`))

/** The same where nobody holds it, without waiting: false where somebody does. */
export const tryAcquireDatasetLock = (sql: SqlClient.SqlClient, org_id: OrgId, task_id: TaskId) =>
  sql<{ readonly held: boolean }>`
    SELECT pg_try_advisory_xact_lock(${lockOf(sql, org_id, task_id)}) AS held
  `.pipe(
    Effect.map(([row]) => row?.held === true),
    Effect.orDie
  )

const withDatasetPermit = makeKeyedSemaphore({ permits: 1, onTimeout: permitTimeout })

/**
 * Runs the transactions of this process that are to hold a dataset one after another. Who waits for its turn has no connection, and takes
 * none of the few that are the organization's: however many there are, its other requests go on. Within a transaction, which has its
 * connection already, nothing is waited for.
 */
export const oneAfterAnother =
  (org_id: OrgId, task_id: TaskId) =>
  <A, E, R>(self: Effect.Effect<A, E, R>): Effect.Effect<A, E | SqlError.SqlError, R> =>
    Effect.flatMap(isInTransaction, (inside) =>
      inside ? self : withDatasetPermit(`${org_id}/${task_id}`)(self)
    )
