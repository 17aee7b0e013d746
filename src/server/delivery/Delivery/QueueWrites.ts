import type { Array as Arr } from "effect"
import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import type { OrgId } from "../../../domain/Ids.ts"
import { type Timestamp, toDate } from "../../../domain/Time.ts"
import { boolArray, float8Array, int4Array, textArray } from "../../store/pgArrays.ts"
import type { Enqueued } from "./QueuedDelivery.ts"
import { shardOf } from "./Shards.ts"

/**
 * Below its capacity by more than this, and by what so many transactions bring that give it as much as the one at hand, a destination is
 * filled without a lock: transactions that do not see each other yet cannot be as many. Deadlines give one destination a thousand at once.
 */
const CLOSE_TO_FULL = 256
const UNSEEN = 8

/** "csgd" in ASCII: seeds the numbers of destinations' locks, which no other lock has but by a chance of one in 2^64. */
const DESTINATION_LOCK = 0x63736764

/** What a delivery that found no room is recorded with. */
const QUEUE_FULL = "queue full"

/** A delivery that is about to be written. */
export interface Made extends Enqueued {
  readonly shard: number
  readonly delivery_id: string
  readonly size: number
  readonly capacity: number
  readonly delay: number
  readonly within: number | null
}

/** Where `insertRoomy` put a delivery: `seq` is null where its destination is close to full, and nothing was written. */
export interface Placed {
  readonly delivery_id: string
  readonly seq: number | null
  readonly consecutive_failures: number | null
  readonly cooldown_round: number | null
  readonly cooldown_ms: number | null
}

/** The statements that write the queue and its log, within the caller's transaction. */
export const makeQueueWrites = (sql: SqlClient.SqlClient) => {
  /**
   * Holds the destination to the end of the transaction: from here on its count stands still. No row is held: the engine writes down there
   * how it fares, and must not wait for whoever queues thousands of deliveries again.
   */
  const lockDestination = (org_id: OrgId, destination_id: string) => sql`
    SELECT pg_advisory_xact_lock(hashtextextended(${`${org_id}/${destination_id}`}::text, ${DESTINATION_LOCK}::bigint))
  `

  /** Rows in the queue, counted up to the capacity. */
  const room = (org_id: OrgId, destination_id: string, capacity: number) =>
    Effect.map(
      sql<{ readonly count: number }>`
        SELECT count(*)::int AS count
        FROM (
          SELECT 1
          FROM delivery_queue
          WHERE shard = ${shardOf(destination_id)}::smallint
            AND org_id = ${org_id}
            AND destination_id = ${destination_id}
          LIMIT ${capacity}::int
        ) q
      `.unprepared,
      (rows) => capacity - (rows[0]?.count ?? 0)
    )

  /** Writes log and queue, of those whose destination is close to full nothing; answers with the place of each. */
  const insertRoomy = (list: ReadonlyArray<Made>, now: Timestamp) => sql<Placed>`
    WITH given AS MATERIALIZED (
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
        ${int4Array(list.map((one) => one.capacity))}::int[],
        ${float8Array(list.map((one) => one.delay))}::float8[],
        ${float8Array(list.map((one) => one.within))}::float8[]
      ) AS g (shard, org_id, destination_id, delivery_id, channel, event_id, label, size, capacity, delay, within)
    ), destinations AS MATERIALIZED (
      -- Counted once a destination, however many deliveries it is given.
      SELECT
        d.org_id, d.destination_id, waiting.count >= d.roomy AS tight,
        h.consecutive_failures, h.cooldown_round,
        (extract(epoch FROM h.cooldown_until - statement_timestamp()) * 1000)::float8 AS cooldown_ms
      FROM (
        SELECT
          shard, org_id, destination_id,
          greatest(0, min(capacity) - ${CLOSE_TO_FULL}::int - ${UNSEEN}::int * count(*)) AS roomy
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
          LIMIT d.roomy
        ) c
      ) waiting
      LEFT JOIN delivery_destinations h ON h.org_id = d.org_id AND h.destination_id = d.destination_id
    ), wanted AS MATERIALIZED (
      SELECT g.*, d.tight, d.consecutive_failures, d.cooldown_round, d.cooldown_ms
      FROM given g
      JOIN destinations d ON d.org_id = g.org_id AND d.destination_id = g.destination_id
    ), logged AS (
      INSERT INTO deliveries
        (org_id, destination_id, delivery_id, channel, event_id, label, size, status, created_at)
      SELECT
        org_id, destination_id, delivery_id, channel, event_id, label, size, 'pending',
        ${toDate(now)}::timestamptz
      FROM wanted
      WHERE NOT tight
    ), queued AS (
      INSERT INTO delivery_queue
        (shard, org_id, destination_id, delivery_id, channel, event_id, due_at, expires_at, attempt, first_attempt)
      SELECT
        shard, org_id, destination_id, delivery_id, channel, event_id,
        now() + delay * interval '1 millisecond', now() + within * interval '1 millisecond', 0, 0
      FROM wanted
      WHERE NOT tight
      RETURNING delivery_id, seq
    )
    SELECT w.delivery_id, q.seq::float8 AS seq, w.consecutive_failures, w.cooldown_round, w.cooldown_ms
    FROM wanted w
    LEFT JOIN queued q ON q.delivery_id = w.delivery_id
  `

  /** The same under the destination's lock, and past the capacity as failed. Answers with how many those are. */
  const insertTight = Effect.fnUntraced(function* (list: Arr.NonEmptyReadonlyArray<Made>, now: Timestamp) {
    const { capacity, destination_id, org_id } = list[0]
    yield* lockDestination(org_id, destination_id)
    const free = yield* room(org_id, destination_id, capacity)
    yield* sql`
      WITH given AS MATERIALIZED (
        SELECT *
        FROM unnest(
          ${textArray(list.map((one) => one.delivery_id))}::text[],
          ${textArray(list.map((one) => one.channel))}::text[],
          ${textArray(list.map((one) => one.event_id))}::text[],
          ${textArray(list.map((one) => one.label))}::text[],
          ${int4Array(list.map((one) => one.size))}::int[],
          ${float8Array(list.map((one) => one.delay))}::float8[],
          ${float8Array(list.map((one) => one.within))}::float8[],
          ${boolArray(list.map((_, index) => index < free))}::boolean[]
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
      )
      INSERT INTO delivery_queue
        (shard, org_id, destination_id, delivery_id, channel, event_id, due_at, expires_at, attempt, first_attempt)
      SELECT
        ${shardOf(destination_id)}::smallint, ${org_id}, ${destination_id}, delivery_id, channel, event_id,
        now() + delay * interval '1 millisecond', now() + within * interval '1 millisecond', 0, 0
      FROM given
      WHERE fits
      ORDER BY place
    `
    return Math.max(0, list.length - Math.max(0, free))
  })

  return { insertRoomy, insertTight, lockDestination, room }
}
