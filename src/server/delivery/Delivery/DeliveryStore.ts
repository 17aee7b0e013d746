import { Effect, Result } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import type { Health } from "../../../domain/delivery/Cooldown.ts"
import type { OrgId } from "../../../domain/Ids.ts"
import { isDatabaseUnavailable } from "../../store/databaseErrors.ts"
import type { StoreClock } from "../../store/StoreClock.ts"
import { transaction } from "../../store/transaction.ts"
import { writeResultsOnCluster } from "./ClusterQueueWrites.ts"
import { makeClusterQueueReads } from "./ClusterQueueReads.ts"
import type { Lane } from "./Lane.ts"
import { makeQueueReads, type QueueReads } from "./QueueReads.ts"
import { writeHealth } from "./writeHealth.ts"
import { type ConcludedAttempt, type RecordedResults, writeResults } from "./writeResults.ts"

/** The engine's statements on the queue, the log and the health of destinations, of shards that it owns. */
export interface DeliveryStore extends QueueReads {
  /**
   * Records the results of attempts whose rows are still at the recorded attempt and under the epoch of their lane; the
   * others are unchanged. Never waits for the lock of a row. `withinTransaction` gets the numbers of the written rows,
   * and its writes commit together with the results; they wait for locks for half a second at most.
   */
  readonly recordResults: (
    batch: ReadonlyArray<ConcludedAttempt>,
    withinTransaction?: (written: ReadonlySet<number>) => Effect.Effect<void, SqlError.SqlError>
  ) => Effect.Effect<RecordedResults, SqlError.SqlError>
  /**
   * Stores the health of lanes, except those whose shard has another owner by now. Never waits for a row lock: returns
   * the keys of lanes whose row is locked and was not written.
   */
  readonly saveHealth: (
    lanes: ReadonlyMap<Lane, Health>
  ) => Effect.Effect<ReadonlySet<string>, SqlError.SqlError>
}

/** The statements of PostgreSQL. */
export const makeDeliveryStore = (sql: SqlClient.SqlClient, clock: StoreClock["Service"]): DeliveryStore => ({
  ...makeQueueReads(sql, clock),
  recordResults: (batch, withinTransaction) => {
    const write = writeResults(sql, clock, batch)
    return withinTransaction === undefined ? write : recordResults(sql, write, withinTransaction)
  },
  saveHealth: (lanes) => writeHealth(sql, clock, lanes)
})

/** The statements of a Citus cluster: reads of all nodes, and writes organization by organization. */
export const makeClusterDeliveryStore = (
  sql: SqlClient.SqlClient,
  clock: StoreClock["Service"]
): DeliveryStore => ({
  ...makeQueueReads(sql, clock),
  ...makeClusterQueueReads(sql, clock),
  recordResults: (batch, withinTransaction) =>
    Effect.map(
      forEachOrganization(
        Map.groupBy(batch, ({ result }) => result.delivery.org_id),
        (results, org_id) =>
          recordResults(sql, writeResultsOnCluster(sql, clock, results, org_id), withinTransaction),
        (results): RecordedResults => ({
          written: new Set(),
          locked: new Set(results.map(({ result }) => result.delivery.seq))
        })
      ),
      (recorded) => ({
        written: new Set(recorded.flatMap(({ written }) => [...written])),
        locked: new Set(recorded.flatMap(({ locked }) => [...locked]))
      })
    ),
  saveHealth: (lanes) =>
    Effect.map(
      forEachOrganization(
        Map.groupBy(lanes, ([{ org_id }]) => org_id),
        (ofOne, org_id) => writeHealth(sql, clock, new Map(ofOne), org_id),
        (ofOne) => new Set(ofOne.map(([{ key }]) => key))
      ),
      (locked) => new Set(locked.flatMap((keys) => [...keys]))
    )
})

/** Organizations that are written concurrently; fewer than the engine has connections. */
const CONCURRENT_ORGANIZATIONS = 4

/**
 * Writes for each organization on its node. If only some nodes are unavailable, the writes for these have the result `unavailable`; if all
 * are, the whole fails.
 */
const forEachOrganization = <A, B>(
  groups: ReadonlyMap<OrgId, ReadonlyArray<A>>,
  write: (group: ReadonlyArray<A>, org_id: OrgId) => Effect.Effect<B, SqlError.SqlError>,
  unavailable: (group: ReadonlyArray<A>) => B
): Effect.Effect<ReadonlyArray<B>, SqlError.SqlError> =>
  Effect.gen(function* () {
    const results = yield* Effect.forEach(
      groups,
      ([org_id, group]) => Effect.map(Effect.result(write(group, org_id)), (result) => ({ group, result })),
      { concurrency: CONCURRENT_ORGANIZATIONS }
    )
    const error = results
      .flatMap(({ result }) => (Result.isFailure(result) ? [result.failure] : []))
      .find((failure, _, failures) => failures.length === results.length || !isDatabaseUnavailable(failure))
    if (error !== undefined) return yield* Effect.fail(error)
    return results.map(({ group, result }) =>
      Result.isSuccess(result) ? result.success : unavailable(group)
    )
  })

/** Records results and what else is written with them, in one transaction. */
const recordResults = (
  sql: SqlClient.SqlClient,
  write: Effect.Effect<RecordedResults, SqlError.SqlError>,
  withinTransaction: Parameters<DeliveryStore["recordResults"]>[1]
) =>
  transaction(
    withinTransaction === undefined
      ? write
      : sql`SET LOCAL lock_timeout = '500ms'`.pipe(
          Effect.andThen(write),
          Effect.tap(({ written }) => withinTransaction(written))
        )
  ).pipe(Effect.provideService(SqlClient.SqlClient, sql))
