import { Effect } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { transaction } from "../../store/Database/transaction.ts"
import type { Channel } from "./Channel.ts"
import { int4Array } from "../../store/pgArrays.ts"
import type { Dispatcher } from "./Dispatcher.ts"
import type { Reader } from "./Reader.ts"
import type { Shards } from "./Shards.ts"

/** The longest count of the queue: past it the figures go without. */
const COUNT_MILLIS = 2_000

/** How a channel fares in one process. */
export interface ChannelFigures {
  /** Deliveries that wait or are being sent, in the shards of this process: those of all processes together are the queue. */
  readonly waiting: number
  /** How long the oldest of them was due at the last sweep, in seconds; those aside whose destination cools down. */
  readonly overdueSeconds: number
  /** Attempts under way. */
  readonly inFlight: number
  /** Destinations with deliveries that waited for a cooldown at the last sweep. */
  readonly cooling: number
}

/** How the engine fares in one process. */
export interface DeliveryFigures {
  readonly shards: number
  readonly channels: ReadonlyMap<string, ChannelFigures>
}

/** Reads the figures; the queue is counted, so they are for looking at it every now and then. */
export const makeFigures = (
  sql: SqlClient.SqlClient,
  channels: ReadonlyMap<string, Channel>,
  shards: Shards,
  dispatcher: Dispatcher,
  reader: Reader
): Effect.Effect<DeliveryFigures, SqlError.SqlError> => {
  /** The one statement that reads a whole table: walking an index for every row of it costs more. */
  const count = (owned: ReadonlyArray<number>) =>
    transaction(
      Effect.gen(function* () {
        yield* sql`SELECT set_config('enable_seqscan', 'on', true), set_config('statement_timeout', ${String(COUNT_MILLIS)}, true)`
        return yield* sql<{ readonly channel: string; readonly waiting: number }>`
          SELECT channel, count(*)::int AS waiting
          FROM delivery_queue
          WHERE shard = ANY(${int4Array(owned)}::smallint[])
          GROUP BY channel
        `.unprepared
      })
    ).pipe(Effect.provideService(SqlClient.SqlClient, sql))

  return Effect.gen(function* () {
    const owned = [...shards.owned.keys()]
    const waiting = new Map((yield* count(owned)).map((row) => [row.channel, row.waiting]))
    const swept = reader.swept()
    const running = dispatcher.running()
    return {
      shards: owned.length,
      channels: new Map(
        [...channels.keys()].map((name): readonly [string, ChannelFigures] => [
          name,
          {
            waiting: waiting.get(name) ?? 0,
            overdueSeconds: (swept.get(name)?.overdueMillis ?? 0) / 1000,
            inFlight: running.get(name) ?? 0,
            cooling: swept.get(name)?.cooling ?? 0
          }
        ])
      )
    }
  })
}
