import { DateTime, Effect } from "effect"
import type { SqlClient } from "effect/sql"
import { lockOnNode } from "../../store/Cluster.ts"
import { notFound } from "../../../api/notFound.ts"
import { NotReplayable, QueueFull } from "../../../api/Problems.ts"
import type { OrgId } from "../../../domain/Ids.ts"
import { type Timestamp, toDate } from "../../../domain/Time.ts"
import { currentTime } from "../../store/currentTime.ts"
import type { StoreClock } from "../../store/StoreClock.ts"
import { atomic } from "../../store/transaction.ts"
import { type Channel, type ChannelPolicy } from "../Channel.ts"
import { MAX_CLOCK_SKEW, uuidTimePrefix } from "../../../domain/Ids.ts"
import { textArray } from "../../store/pgArrays.ts"
import { deliveryCounts } from "./deliveryCounts.ts"
import { channelByName, type DeliveryQueue, queuedRowsLocked } from "./DeliveryQueue.ts"
import { shardOf } from "./shardOf.ts"

/** Length of an id's prefix: three characters and "_". */
const PREFIX_LENGTH = 4

/** The result of replaying one of many deliveries. A delivery that does not exist has no outcome. */
export type ReplayOfMany = "queued" | "not_failed" | "queue_full"

/**
 * Queues failed deliveries again. Like every insert near the queue limit, it locks the destination first, so that its
 * queue length cannot grow meanwhile.
 */
export const makeReplay = (
  sql: SqlClient.SqlClient,
  clock: StoreClock["Service"],
  channels: ReadonlyMap<string, Channel>,
  { lockDestination, remainingCapacity }: DeliveryQueue
) => {
  const atomically = atomic(sql)

  /** Resets failed deliveries to pending, each with a full retry schedule. */
  const enqueueFailed = (
    org_id: OrgId,
    destination_id: string,
    ids: ReadonlyArray<string>,
    { retry }: ChannelPolicy
  ) =>
    Effect.map(
      sql`
        WITH reset AS (
          UPDATE deliveries
          SET status = 'pending', replays = replays + 1, finished_at = NULL
          WHERE org_id = ${org_id}
            AND destination_id = ${destination_id}
            AND delivery_id = ANY(${textArray(ids)}::text[])
            AND status = 'failed'
          RETURNING org_id, destination_id, delivery_id, channel, event_id, attempts, created_at
        ), replayed AS (
          SELECT org_id, destination_id, created_at, 'failed' AS status
          FROM reset
        ), ${deliveryCounts(sql, "replayed", -1)}
        INSERT INTO delivery_queue
          (shard, org_id, destination_id, delivery_id, channel, event_id, due_at, expires_at, attempt, first_attempt)
        SELECT
          ${shardOf(destination_id)}::smallint, ${org_id}, ${destination_id}, delivery_id, channel, event_id,
          ${currentTime(sql, clock)}, ${currentTime(sql, clock)} + ${retry.maxElapsedMillis}::float8 * interval '1 millisecond', attempts, attempts
        FROM reset
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
        const rows = yield* lockOnNode(
          sql,
          org_id,
          sql<{ readonly status: string; readonly channel: string }>`
            SELECT status, channel
            FROM deliveries
            WHERE org_id = ${org_id}
              AND destination_id = ${destination_id}
              AND delivery_id = ${delivery_id}
            FOR UPDATE
          `
        )
        const row = rows[0]
        if (row === undefined) return yield* notFound("delivery")
        if (row.status !== "failed") {
          return yield* new NotReplayable({
            detail: `Only failed deliveries can be replayed; this one is ${row.status}.`
          })
        }
        const { policy } = yield* channelByName(channels, row.channel)
        if ((yield* remainingCapacity(org_id, destination_id, policy.queueLimit)) <= 0) {
          return yield* new QueueFull({
            detail: `The queue of this destination is full (limit ${policy.queueLimit} deliveries). Retry when some are delivered.`
          })
        }
        yield* enqueueFailed(org_id, destination_id, [delivery_id], policy)
      })
    )
  })

  const replayMany = Effect.fn("Delivery.replayMany")(function* (
    org_id: OrgId,
    destination_id: string,
    ids: ReadonlyArray<string>
  ) {
    return yield* atomically(
      Effect.gen(function* () {
        yield* lockDestination(org_id, destination_id)
        const rows = yield* lockOnNode(
          sql,
          org_id,
          sql<{
            readonly delivery_id: string
            readonly status: string
            readonly channel: string
          }>`
            SELECT delivery_id, status, channel
            FROM deliveries
            WHERE org_id = ${org_id}
              AND destination_id = ${destination_id}
              AND delivery_id = ANY(${textArray(ids)}::text[])
            ORDER BY delivery_id
            FOR UPDATE
          `
        )
        const outcomes = new Map(rows.map((row): [string, ReplayOfMany] => [row.delivery_id, "not_failed"]))
        const failed = rows.filter(({ status }) => status === "failed")
        const [first] = failed
        if (first === undefined) return outcomes
        const { policy } = yield* channelByName(channels, first.channel)
        const capacity = Math.max(0, yield* remainingCapacity(org_id, destination_id, policy.queueLimit))
        failed.forEach(({ delivery_id }, index) =>
          outcomes.set(delivery_id, index < capacity ? "queued" : "queue_full")
        )
        const queued = failed.slice(0, capacity).map(({ delivery_id }) => delivery_id)
        if (queued.length > 0) yield* enqueueFailed(org_id, destination_id, queued, policy)
        return outcomes
      })
    )
  }, Effect.orDie)

  const replayWindow = Effect.fn("Delivery.replayWindow")(function* (
    org_id: OrgId,
    destination_id: string,
    window: { readonly since: Timestamp; readonly until: Timestamp | null }
  ) {
    return yield* atomically(
      Effect.gen(function* () {
        const [oldest] = yield* sql<{ readonly delivery_id: string; readonly channel: string }>`
          SELECT delivery_id, channel
          FROM deliveries
          WHERE org_id = ${org_id}
            AND destination_id = ${destination_id}
          ORDER BY delivery_id
          LIMIT 1
        `
        if (oldest === undefined) return { queued: 0, skipped: 0 }
        const { policy } = yield* channelByName(channels, oldest.channel)
        const idAt = (at: Timestamp) => oldest.delivery_id.slice(0, PREFIX_LENGTH) + uuidTimePrefix(at)
        // The condition on ids uses the index, so that a short window does not read a long log.
        const inWindow = sql.and([
          sql`org_id = ${org_id}`,
          sql`destination_id = ${destination_id}`,
          sql`status = 'failed'`,
          sql`delivery_id >= ${idAt(DateTime.subtractDuration(window.since, MAX_CLOCK_SKEW))}`,
          sql`created_at >= ${toDate(window.since)}`,
          ...(window.until === null
            ? []
            : [
                sql`delivery_id < ${idAt(DateTime.addDuration(window.until, MAX_CLOCK_SKEW))}`,
                sql`created_at < ${toDate(window.until)}`
              ])
        ])
        yield* lockDestination(org_id, destination_id)
        const capacity = Math.max(0, yield* remainingCapacity(org_id, destination_id, policy.queueLimit))
        const rows = yield* sql<{ readonly delivery_id: string }>`
          SELECT delivery_id
          FROM deliveries
          WHERE ${inWindow}
          ORDER BY delivery_id
          LIMIT ${capacity}::int
        `
        const queued = yield* enqueueFailed(
          org_id,
          destination_id,
          rows.map((row) => row.delivery_id),
          policy
        )
        if (rows.length < capacity) return { queued, skipped: 0 }
        const [left] = yield* sql<{ readonly count: number }>`
          SELECT count(*)::int AS count
          FROM deliveries
          WHERE ${inWindow}
        `
        return { queued, skipped: left?.count ?? 0 }
      })
    )
  })

  const makeDue = Effect.fn("Delivery.makeDue")(function* (org_id: OrgId, destination_id: string) {
    yield* sql`
      WITH locked AS MATERIALIZED (
        ${queuedRowsLocked(sql, org_id, destination_id, sql`AND due_at > ${currentTime(sql, clock)}`)}
      )
      UPDATE delivery_queue q
      SET due_at = ${currentTime(sql, clock)}
      FROM locked l
      WHERE q.org_id = ${org_id}
        AND q.shard = l.shard
        AND q.seq = l.seq
    `
  })

  return { replay, replayMany, replayWindow, makeDue }
}
