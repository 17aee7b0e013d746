import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import { NotFound, NotReplayable, QueueFull } from "../../api/Problems.ts"
import type { OrgId } from "../../domain/Ids.ts"
import { type Timestamp, toDate } from "../../domain/Time.ts"
import { atomic } from "../Database.ts"
import type { Channel, ChannelPolicy } from "./Channel.ts"
import { texts } from "./Columns.ts"
import { channelNamed, type DeliveryQueue } from "./Queue.ts"
import { shardOf } from "./Shards.ts"

/** Failed deliveries, queued again. The destination is locked first, as everywhere: then its count stands still. */
export const makeReplay = (
  sql: SqlClient.SqlClient,
  channels: ReadonlyMap<string, Channel>,
  { lockDestination, room }: DeliveryQueue
) => {
  const atomically = atomic(sql)

  /** Failed deliveries become pending again, each with the whole schedule before it. */
  const requeue = (
    org_id: OrgId,
    destination_id: string,
    ids: ReadonlyArray<string>,
    { retry }: ChannelPolicy
  ) =>
    Effect.map(
      sql`
        WITH again AS (
          UPDATE deliveries
          SET status = 'pending', replays = replays + 1, finished_at = NULL
          WHERE org_id = ${org_id}
            AND destination_id = ${destination_id}
            AND delivery_id = ANY(${texts(ids)}::text[])
            AND status = 'failed'
          RETURNING delivery_id, channel, event_id, attempts
        )
        INSERT INTO delivery_queue
          (shard, org_id, destination_id, delivery_id, channel, event_id, due_at, give_up_at, attempt, round_start)
        SELECT
          ${shardOf(destination_id)}::smallint, ${org_id}, ${destination_id}, delivery_id, channel, event_id,
          now(), now() + ${retry.within}::float8 * interval '1 millisecond', attempts, attempts
        FROM again
        ORDER BY delivery_id
        RETURNING 1 AS queued
      `,
      (rows) => rows.length
    )

  const replay = Effect.fn("Delivery.replay")(function* (
    org_id: OrgId,
    destination_id: string,
    delivery_id: string
  ) {
    yield* atomically(
      Effect.gen(function* () {
        yield* lockDestination(org_id, destination_id)
        const rows = yield* sql<{ readonly status: string; readonly channel: string }>`
          SELECT status, channel
          FROM deliveries
          WHERE org_id = ${org_id}
            AND destination_id = ${destination_id}
            AND delivery_id = ${delivery_id}
          FOR UPDATE
        `
        const row = rows[0]
        if (row === undefined) return yield* new NotFound({ detail: "There is no such delivery" })
        if (row.status !== "failed") {
          return yield* new NotReplayable({ detail: `A delivery that is ${row.status} is not replayed` })
        }
        const { policy } = yield* channelNamed(channels, row.channel)
        if ((yield* room(org_id, destination_id, policy.capacity)) <= 0) {
          return yield* new QueueFull({
            detail: `${policy.capacity} deliveries wait for this destination already`
          })
        }
        yield* requeue(org_id, destination_id, [delivery_id], policy)
      })
    )
  })

  const replayWindow = Effect.fn("Delivery.replayWindow")(function* (
    org_id: OrgId,
    destination_id: string,
    window: { readonly since: Timestamp; readonly until: Timestamp | null }
  ) {
    return yield* atomically(
      Effect.gen(function* () {
        yield* lockDestination(org_id, destination_id)
        const inWindow = sql`
          org_id = ${org_id}
          AND destination_id = ${destination_id}
          AND status = 'failed'
          AND created_at >= ${toDate(window.since)}
          AND (created_at < ${window.until === null ? null : toDate(window.until)}::timestamptz) IS NOT FALSE
        `
        const counted = yield* sql<{ readonly count: number; readonly channel: string | null }>`
          SELECT count(*)::int AS count, min(channel) AS channel
          FROM deliveries
          WHERE ${inWindow}
        `
        const { channel, count } = counted[0] ?? { channel: null, count: 0 }
        if (channel === null) return { queued: 0, skipped: 0 }
        const { policy } = yield* channelNamed(channels, channel)
        const free = yield* room(org_id, destination_id, policy.capacity)
        const rows = yield* sql<{ readonly delivery_id: string }>`
          SELECT delivery_id
          FROM deliveries
          WHERE ${inWindow}
          ORDER BY delivery_id
          LIMIT ${Math.max(0, free)}::int
        `
        const queued = yield* requeue(
          org_id,
          destination_id,
          rows.map((row) => row.delivery_id),
          policy
        )
        return { queued, skipped: Math.max(0, count - queued) }
      })
    )
  })

  return { replay, replayWindow }
}
