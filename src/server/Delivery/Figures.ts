import { type Clock, Effect } from "effect"
import type { SqlClient, SqlError } from "effect/sql"
import type { Channel } from "./Channel.ts"
import { ints } from "./Columns.ts"
import type { Dispatcher } from "./Dispatcher.ts"
import { monotonicMillis, type Shards } from "./Shards.ts"

/** How a channel fares in one process. */
export interface ChannelFigures {
  /** Deliveries that wait in the shards of this process: those of all processes together are the queue. */
  readonly waiting: number
  /** How long the oldest of them is due, in seconds; those aside whose destination cools down. */
  readonly overdueSeconds: number
  /** Attempts under way. */
  readonly inFlight: number
  /** Destinations with deliveries that wait for a cooldown, as far as they are in memory. */
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
  clock: Clock.Clock,
  channels: ReadonlyMap<string, Channel>,
  shards: Shards,
  dispatcher: Dispatcher
): Effect.Effect<DeliveryFigures, SqlError.SqlError> =>
  Effect.gen(function* () {
    const owned = [...shards.owned.keys()]
    const rows = yield* sql<{
      readonly channel: string
      readonly waiting: number
      readonly overdue: number
    }>`
      SELECT
        l.channel,
        sum(l.waiting)::int AS waiting,
        coalesce(
          max(extract(epoch FROM statement_timestamp() - l.due_at))
            FILTER (WHERE (d.cooldown_until > statement_timestamp()) IS NOT TRUE),
          0
        )::float8 AS overdue
      FROM (
        SELECT org_id, destination_id, channel, count(*) AS waiting, min(due_at) AS due_at
        FROM delivery_queue
        WHERE shard = ANY(${ints(owned)}::smallint[])
        GROUP BY org_id, destination_id, channel
      ) l
      LEFT JOIN delivery_destinations d ON d.org_id = l.org_id AND d.destination_id = l.destination_id
      GROUP BY l.channel
    `
    const queued = new Map(rows.map((row) => [row.channel, row]))
    const { cooling, inFlight } = dispatcher.figures(monotonicMillis(clock))
    return {
      shards: owned.length,
      channels: new Map(
        [...channels.keys()].map((name): readonly [string, ChannelFigures] => {
          const row = queued.get(name)
          return [
            name,
            {
              waiting: row?.waiting ?? 0,
              overdueSeconds: Math.max(0, row?.overdue ?? 0),
              inFlight: inFlight.get(name) ?? 0,
              cooling: cooling.get(name) ?? 0
            }
          ]
        })
      )
    }
  })
