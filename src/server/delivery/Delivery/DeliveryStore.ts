import { Effect } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import type { Health } from "../../../domain/delivery/Cooldown.ts"
import type { StoreClock } from "../../store/StoreClock.ts"
import { transaction } from "../../store/transaction.ts"
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
  recordResults: (batch, withinTransaction) =>
    withinTransaction === undefined
      ? writeResults(sql, clock, batch)
      : transaction(
          sql`SET LOCAL lock_timeout = '500ms'`.pipe(
            Effect.andThen(writeResults(sql, clock, batch)),
            Effect.tap(({ written }) => withinTransaction(written))
          )
        ).pipe(Effect.provideService(SqlClient.SqlClient, sql)),
  saveHealth: (lanes) => writeHealth(sql, clock, lanes)
})
