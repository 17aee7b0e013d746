import { Effect } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import type { Health } from "../../../domain/delivery/Cooldown.ts"
import type { StoreClock } from "../../store/StoreClock.ts"
import { transaction } from "../../store/transaction.ts"
import type { Lane } from "./Lane.ts"
import { makeQueueReads, type QueueReads } from "./QueueReads.ts"
import { writeHealth } from "./writeHealth.ts"
import { type ConcludedAttempt, writeResults } from "./writeResults.ts"

/** The engine's statements on the queue, the log and the health of destinations, of shards that it owns. */
export interface DeliveryStore extends QueueReads {
  /**
   * Records the results of attempts. Returns the numbers of the rows that were still at the recorded attempt and under
   * the epoch of their lane; the others are unchanged. `withinTransaction` gets these numbers, and its writes commit
   * together with the results.
   */
  readonly recordResults: (
    batch: ReadonlyArray<ConcludedAttempt>,
    withinTransaction?: (written: ReadonlySet<number>) => Effect.Effect<void, SqlError.SqlError>
  ) => Effect.Effect<ReadonlySet<number>, SqlError.SqlError>
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
      : transaction(Effect.tap(writeResults(sql, clock, batch), withinTransaction)).pipe(
          Effect.provideService(SqlClient.SqlClient, sql)
        ),
  saveHealth: (lanes) => writeHealth(sql, clock, lanes)
})
