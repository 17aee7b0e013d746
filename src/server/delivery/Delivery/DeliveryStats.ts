import { Effect } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { transaction } from "../../store/transaction.ts"
import type { Channel } from "../Channel.ts"
import { int4Array } from "../../store/pgArrays.ts"
import type { Dispatcher } from "./Dispatcher.ts"
import type { Reader } from "./Reader.ts"
import type { Shards } from "./Shards.ts"

/** Timeout of the queue count, in milliseconds; when it passes, the statistics fail. */
const COUNT_MILLIS = 2_000

/** Statistics of one channel in one replica. */
export interface ChannelStats {
  /** Deliveries queued or being sent, in the shards of this replica; the sum over all replicas is the queue. */
  readonly waiting: number
  /**
   * How long the most overdue delivery had been due at the last sweep, in seconds, leaving out destinations in
   * cooldown.
   */
  readonly overdueSeconds: number
  /** Attempts in flight. */
  readonly inFlight: number
  /** Destinations with queued deliveries that were in cooldown at the last sweep. */
  readonly coolingDown: number
}

/** Statistics of the engine in one replica. */
export interface DeliveryStats {
  /** Shards that it owns. */
  readonly shards: number
  readonly channels: ReadonlyMap<string, ChannelStats>
}

/** Reads the statistics. It counts the queue, so it is meant for an occasional call. */
export const makeDeliveryStats = (
  sql: SqlClient.SqlClient,
  channels: ReadonlyMap<string, Channel>,
  shards: Shards,
  dispatcher: Dispatcher,
  reader: Reader
): Effect.Effect<DeliveryStats, SqlError.SqlError> => {
  /** The only statement that reads a whole table: an index walk over every row would cost more. */
  const count = (owned: ReadonlyArray<number>) =>
    transaction(
      Effect.gen(function* () {
        yield* sql`SELECT set_config('enable_seqscan', 'on', true), set_config('statement_timeout', ${String(COUNT_MILLIS)}, true)`
        return yield* sql<{ readonly channel: string; readonly waiting: number }>`
          SELECT q.channel, count(*)::int AS waiting
          FROM delivery_queue q
          JOIN unnest(${int4Array(owned)}::smallint[]) AS s (shard) ON s.shard = q.shard
          GROUP BY q.channel
        `.unprepared
      })
    ).pipe(Effect.provideService(SqlClient.SqlClient, sql))

  return Effect.gen(function* () {
    const waiting = new Map((yield* count([...shards.owned.keys()])).map((row) => [row.channel, row.waiting]))
    const swept = reader.lastSweep()
    const running = dispatcher.attemptsInFlight()
    return {
      shards: shards.owned.size,
      channels: new Map(
        [...channels.keys()].map((name): readonly [string, ChannelStats] => [
          name,
          {
            waiting: waiting.get(name) ?? 0,
            overdueSeconds: (swept.get(name)?.overdueMillis ?? 0) / 1000,
            inFlight: running.get(name) ?? 0,
            coolingDown: swept.get(name)?.coolingDown ?? 0
          }
        ])
      )
    }
  })
}
