import { type Array as Arr, Effect } from "effect"
import type { SqlClient, Statement } from "effect/sql"
import type { OrgId } from "../../../domain/Ids.ts"
import { type Timestamp, toDate } from "../../../domain/Time.ts"
import { currentTime } from "../../store/currentTime.ts"
import { boolArray, float8Array, int4Array, textArray } from "../../store/pgArrays.ts"
import type { StoreClock } from "../../store/StoreClock.ts"
import type { NewDelivery } from "./QueuedDelivery.ts"
import { countedDeliveryColumns, deliveryCounts } from "./deliveryCounts.ts"
import { shardOf } from "./shardOf.ts"

/**
 * High-water mark: an insert takes no lock while the destination's queue is further from its limit than this margin plus
 * `UNSEEN_TRANSACTIONS` times the size of the insert. Concurrent transactions do not see each other's rows until they
 * commit, so up to `UNSEEN_TRANSACTIONS` inserts of this size may pass the same check without exceeding the limit. A
 * batch of deadlines can enqueue a thousand deliveries for one destination.
 */
const HIGH_WATER_MARGIN = 256
const UNSEEN_TRANSACTIONS = 8

/** The length of a queue from which an insert of `size` deliveries takes the lock. */
export const highWaterMark = (queueLimit: number, size: number): number =>
  Math.max(0, queueLimit - HIGH_WATER_MARGIN - UNSEEN_TRANSACTIONS * size)

/**
 * "csgd" in ASCII. The seed of the hash that gives each destination its advisory lock; a collision with another lock
 * has a chance of one in 2^64.
 */
const DESTINATION_LOCK = 0x63736764

/** The `last_error` of a delivery beyond the queue limit. */
export const QUEUE_FULL = "queue full"

/** A delivery with the id, shard and schedule it will be inserted with. */
export interface PreparedDelivery extends NewDelivery {
  readonly shard: number
  readonly delivery_id: string
  readonly size: number
  readonly queueLimit: number
  readonly delayMillis: number
  readonly maxElapsedMillis: number | null
}

/**
 * The result of `insertUnlocked` for one delivery. If `seq` is null, its destination's queue is full and it is recorded as
 * failed (`is_full`), or near its limit and nothing was inserted.
 */
export interface InsertedDelivery {
  readonly delivery_id: string
  readonly is_full: boolean
  /** Deliveries in the destination's queue before the insert, counted up to its limit. */
  readonly waiting: number
  readonly seq: number | null
  readonly consecutive_failures: number | null
  readonly cooldown_round: number | null
  readonly cooldown_ms: number | null
}

/** The statements that write the queue and the log, within the caller's transaction. */
export const makeQueueWrites = (sql: SqlClient.SqlClient, clock: StoreClock["Service"]) => {
  const currently = () => currentTime(sql, clock)

  /**
   * Locks the destination until the transaction ends, so that its queue length cannot grow. An advisory lock instead of
   * a row lock: the engine updates the destination's health row and must not wait for a transaction that replays
   * thousands of deliveries.
   */
  const lockDestination = (org_id: OrgId, destination_id: string) => sql`
    SELECT pg_advisory_xact_lock(hashtextextended(${`${org_id}/${destination_id}`}::text, ${DESTINATION_LOCK}::bigint))
  `

  /** Returns how many more deliveries the destination's queue may take. Counts rows up to the limit only. */
  const remainingCapacity = (org_id: OrgId, destination_id: string, queueLimit: number) =>
    Effect.map(
      sql<{ readonly count: number }>`
        SELECT count(*)::int AS count
        FROM (
          SELECT 1
          FROM delivery_queue
          WHERE shard = ${shardOf(destination_id)}::smallint
            AND org_id = ${org_id}
            AND destination_id = ${destination_id}
          LIMIT ${queueLimit}::int
        ) q
      `.unprepared,
      (rows) => queueLimit - (rows[0]?.count ?? 0)
    )

  /**
   * CTEs about deliveries that a statement may queue: `given` has them, and `destinations` has for each destination its stored health and
   * whether its queue is full (`is_full`) or near its limit (`near_limit`). A full queue needs no lock: it was full when the
   * statement began.
   */
  const givenDeliveries = (list: ReadonlyArray<PreparedDelivery>): Statement.Fragment => sql`
    given AS MATERIALIZED (
      SELECT *
      FROM unnest(
        ${int4Array(list.map((one) => one.shard))}::smallint[],
        ${textArray(list.map((one) => one.org_id))}::text[],
        ${textArray(list.map((one) => one.destination_id))}::text[],
        ${textArray(list.map((one) => one.delivery_id))}::text[],
        ${textArray(list.map((one) => one.channel))}::text[],
        ${textArray(list.map((one) => one.event_id))}::text[],
        ${textArray(list.map((one) => one.label))}::text[],
        ${int4Array(list.map((one) => one.size))}::int[],
        ${int4Array(list.map((one) => one.queueLimit))}::int[],
        ${float8Array(list.map((one) => one.delayMillis))}::float8[],
        ${float8Array(list.map((one) => one.maxElapsedMillis))}::float8[]
      ) AS g (shard, org_id, destination_id, delivery_id, channel, event_id, label, size, queue_limit, delay, within)
    ), destinations AS MATERIALIZED (
      -- Counted once per destination, however many deliveries it is given.
      SELECT
        d.org_id, d.destination_id, waiting.count::int AS waiting, waiting.count >= d.queue_limit AS is_full,
        waiting.count >= d.high_water_mark AND waiting.count < d.queue_limit AS near_limit,
        h.consecutive_failures, h.cooldown_round,
        (extract(epoch FROM h.cooldown_until - ${currently()}) * 1000)::float8 AS cooldown_ms
      FROM (
        SELECT
          shard, org_id, destination_id, min(queue_limit) AS queue_limit,
          greatest(0, min(queue_limit) - ${HIGH_WATER_MARGIN}::int - ${UNSEEN_TRANSACTIONS}::int * count(*)) AS high_water_mark
        FROM given
        GROUP BY shard, org_id, destination_id
      ) d
      CROSS JOIN LATERAL (
        SELECT count(*) AS count
        FROM (
          SELECT 1
          FROM delivery_queue q
          WHERE q.shard = d.shard
            AND q.org_id = d.org_id
            AND q.destination_id = d.destination_id
          LIMIT d.queue_limit
        ) c
      ) waiting
      LEFT JOIN delivery_destinations h
        ON h.org_id = d.org_id AND h.destination_id = d.destination_id
    )`

  /**
   * CTEs that write the log and the queue: `accepted` is a query that returns the rows of `given` to insert. Deliveries
   * for full queues are logged as failed; the others are in `queued` (`delivery_id`, `seq`).
   */
  const insertAccepted = (accepted: Statement.Fragment, now: Timestamp): Statement.Fragment => sql`
    accepted AS MATERIALIZED (
      SELECT a.*, d.is_full
      FROM (${accepted}) a
        JOIN destinations d USING (org_id, destination_id)
    ), logged AS (
      INSERT INTO deliveries
        (org_id, destination_id, delivery_id, channel, event_id, label, size, status, last_error, created_at, finished_at)
      SELECT
        org_id, destination_id, delivery_id, channel, event_id, label, size,
        CASE WHEN is_full THEN 'failed' ELSE 'pending' END,
        CASE WHEN is_full THEN ${QUEUE_FULL} END,
        ${toDate(now)}::timestamptz,
        CASE WHEN is_full THEN ${toDate(now)}::timestamptz END
      FROM accepted
      RETURNING ${sql.literal(countedDeliveryColumns())}
    ), ${deliveryCounts(sql, "logged", 1)}, queued AS (
      INSERT INTO delivery_queue
        (shard, org_id, destination_id, delivery_id, channel, event_id, due_at, expires_at, attempt, first_attempt)
      SELECT
        shard, org_id, destination_id, delivery_id, channel, event_id,
        ${currently()} + delay * interval '1 millisecond', ${currently()} + within * interval '1 millisecond', 0, 0
      FROM accepted
      WHERE NOT is_full
      RETURNING delivery_id, seq
    )`

  /**
   * Optimistic insert: writes log and queue without a lock, skipping deliveries whose destination is near its queue
   * limit and failing those whose destination's queue is full. Returns a row for each delivery.
   */
  const insertUnlocked = (list: ReadonlyArray<PreparedDelivery>, now: Timestamp) => sql<InsertedDelivery>`
    WITH ${givenDeliveries(list)}, ${insertAccepted(
      sql`SELECT g.* FROM given g JOIN destinations d USING (org_id, destination_id) WHERE NOT d.near_limit`,
      now
    )}
    SELECT g.delivery_id, d.is_full, d.waiting, q.seq::float8 AS seq, d.consecutive_failures, d.cooldown_round, d.cooldown_ms
    FROM given g
      JOIN destinations d USING (org_id, destination_id)
      LEFT JOIN queued q USING (delivery_id)
  `

  /**
   * Inserts into the queue and the log under the destination's lock; deliveries beyond the queue limit are logged as
   * failed. All deliveries belong to one destination. Returns how many were beyond the limit.
   */
  const insertUnderLock = Effect.fnUntraced(function* (
    list: Arr.NonEmptyReadonlyArray<PreparedDelivery>,
    now: Timestamp
  ) {
    const { destination_id, org_id, queueLimit } = list[0]
    yield* lockDestination(org_id, destination_id)
    const capacity = yield* remainingCapacity(org_id, destination_id, queueLimit)
    yield* sql`
      WITH given AS MATERIALIZED (
        SELECT *
        FROM unnest(
          ${textArray(list.map((one) => one.delivery_id))}::text[],
          ${textArray(list.map((one) => one.channel))}::text[],
          ${textArray(list.map((one) => one.event_id))}::text[],
          ${textArray(list.map((one) => one.label))}::text[],
          ${int4Array(list.map((one) => one.size))}::int[],
          ${float8Array(list.map((one) => one.delayMillis))}::float8[],
          ${float8Array(list.map((one) => one.maxElapsedMillis))}::float8[],
          ${boolArray(list.map((_, index) => index < capacity))}::boolean[]
        ) WITH ORDINALITY AS g (delivery_id, channel, event_id, label, size, delay, within, fits, place)
      ), logged AS (
        INSERT INTO deliveries
          (org_id, destination_id, delivery_id, channel, event_id, label, size, status, last_error, created_at, finished_at)
        SELECT
          ${org_id}, ${destination_id}, delivery_id, channel, event_id, label, size,
          CASE WHEN fits THEN 'pending' ELSE 'failed' END,
          CASE WHEN fits THEN NULL ELSE ${QUEUE_FULL} END,
          ${toDate(now)}::timestamptz,
          CASE WHEN fits THEN NULL ELSE ${toDate(now)}::timestamptz END
        FROM given
        RETURNING ${sql.literal(countedDeliveryColumns())}
      ), ${deliveryCounts(sql, "logged", 1)}
      INSERT INTO delivery_queue
        (shard, org_id, destination_id, delivery_id, channel, event_id, due_at, expires_at, attempt, first_attempt)
      SELECT
        ${shardOf(destination_id)}::smallint, ${org_id}, ${destination_id}, delivery_id, channel, event_id,
        ${currently()} + delay * interval '1 millisecond', ${currently()} + within * interval '1 millisecond', 0, 0
      FROM given
      WHERE fits
      ORDER BY place
    `
    return Math.max(0, list.length - Math.max(0, capacity))
  })

  return {
    givenDeliveries,
    insertAccepted,
    insertUnlocked,
    insertUnderLock,
    lockDestination,
    remainingCapacity
  }
}
