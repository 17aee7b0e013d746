import { Effect } from "effect"
import type { SqlClient, SqlError } from "effect/sql"
import { currentTime } from "../../store/currentTime.ts"
import { int4Array, int8Array, textArray } from "../../store/pgArrays.ts"
import type { StoreClock } from "../../store/StoreClock.ts"
import type { QueueRow } from "./QueuedDelivery.ts"
import type { Lane } from "./Lane.ts"

/** Lanes in one page of a sweep. */
export const SWEEP_LANES = 500

/** The first row of a lane, as returned by a sweep. */
export interface HeadRow extends QueueRow {
  /** Counts over the row's page: all lanes, and the lanes of the row's channel that are cooling down. */
  readonly lanes: number
  readonly cooling_down: number
}

/** The reads of the queue. */
export interface QueueReads {
  /**
   * Whether connections take row numbers from the sequence in blocks. A row may then get a number far below one that
   * was given out long before. PostgreSQL takes them one at a time unless the sequence was altered; YugabyteDB takes a
   * hundred.
   */
  readonly hasCachedNumbers: Effect.Effect<boolean, SqlError.SqlError>
  /** Reads the rows after each shard's watermark, up to `limit` per shard. */
  readonly tail: (
    shards: ReadonlyArray<number>,
    watermarks: ReadonlyArray<number>,
    limit: number
  ) => Effect.Effect<ReadonlyArray<QueueRow>, SqlError.SqlError>
  /** Returns the shards that have rows. */
  readonly nonEmpty: (
    shards: ReadonlyArray<number>
  ) => Effect.Effect<ReadonlyArray<{ readonly shard: number }>, SqlError.SqlError>
  /**
   * Reads one page of a shard's lanes, starting after the lane `after`. Returns the first row of each lane that has
   * something to do within the horizon, plus the last lane of each channel so that the end and the counts of the page
   * are known.
   */
  readonly heads: (
    shard: number,
    after: readonly [org_id: string, destination_id: string],
    horizonMillis: number
  ) => Effect.Effect<ReadonlyArray<HeadRow>, SqlError.SqlError>
  /** Reads the first rows of each lane, up to `rows` per lane. */
  readonly refill: (
    lanes: ReadonlyArray<Pick<Lane, "shard" | "org_id" | "destination_id">>,
    rows: number
  ) => Effect.Effect<ReadonlyArray<QueueRow>, SqlError.SqlError>
}

/**
 * The statements that read the queue. Their rows are typed but not decoded: this engine wrote them, and a burst reads
 * thousands.
 */
export const makeQueueReads = (sql: SqlClient.SqlClient, clock: StoreClock["Service"]): QueueReads => {
  const now = () => currentTime(sql, clock)
  const columns = () => sql`
      q.shard::int AS shard, q.seq::float8 AS seq, q.org_id, q.destination_id, q.delivery_id, q.channel, q.event_id,
      q.attempt, q.first_attempt,
      (extract(epoch FROM q.due_at - ${now()}) * 1000)::float8 AS wait_ms,
      (extract(epoch FROM q.expires_at - ${now()}) * 1000)::float8 AS left_ms,
      d.consecutive_failures, d.cooldown_round,
      (extract(epoch FROM d.cooldown_until - ${now()}) * 1000)::float8 AS cooldown_ms`

  return {
    hasCachedNumbers: Effect.map(
      sql<{ readonly cached: boolean }>`
        SELECT seqcache > 1 AS cached
        FROM pg_sequence
        WHERE seqrelid = pg_get_serial_sequence('delivery_queue', 'seq')::regclass
      `,
      ([row]) => row?.cached === true
    ),

    tail: (numbers, watermarks, limit) => sql<QueueRow>`
      SELECT ${columns()}
      FROM unnest(${int4Array(numbers)}::smallint[], ${int8Array(watermarks)}::bigint[]) AS s (shard, watermark)
      CROSS JOIN LATERAL (
        SELECT *
        FROM delivery_queue q
        WHERE q.shard = s.shard
          AND q.seq > s.watermark
        ORDER BY q.seq
        LIMIT ${limit}::int
      ) q
      LEFT JOIN delivery_destinations d ON d.org_id = q.org_id AND d.destination_id = q.destination_id
    `,

    nonEmpty: (shards) => sql<{ readonly shard: number }>`
      SELECT s.shard::int AS shard
      FROM unnest(${int4Array(shards)}::smallint[]) AS s (shard)
      WHERE EXISTS (SELECT FROM delivery_queue q WHERE q.shard = s.shard)
    `,

    // A skip scan (a loose index scan): one index probe a lane instead of one a row.
    heads: (shard, after, horizonMillis) => sql<HeadRow>`
      WITH RECURSIVE lanes AS (
        (
          SELECT org_id, destination_id, 1 AS count
          FROM delivery_queue
          WHERE shard = ${shard}::smallint
            AND (org_id, destination_id) > (${after[0]}, ${after[1]})
          ORDER BY org_id, destination_id
          LIMIT 1
        )
        UNION ALL
        SELECT n.org_id, n.destination_id, l.count + 1
        FROM lanes l
        CROSS JOIN LATERAL (
          SELECT org_id, destination_id
          FROM delivery_queue
          WHERE shard = ${shard}::smallint
            AND (org_id, destination_id) > (l.org_id, l.destination_id)
          ORDER BY org_id, destination_id
          LIMIT 1
        ) n
        WHERE l.count < ${SWEEP_LANES}::int
      ), page AS (
        SELECT
          ${columns()},
          greatest(q.due_at, d.cooldown_until)
            <= ${now()} + ${horizonMillis}::float8 * interval '1 millisecond' AS soon,
          count(*) OVER () AS lanes,
          count(*) FILTER (WHERE d.cooldown_until > ${now()}) OVER (PARTITION BY q.channel) AS cooling_down,
          row_number() OVER (PARTITION BY q.channel ORDER BY l.count DESC) AS place
        FROM lanes l
        CROSS JOIN LATERAL (
          SELECT *
          FROM delivery_queue q
          WHERE q.shard = ${shard}::smallint
            AND q.org_id = l.org_id
            AND q.destination_id = l.destination_id
          ORDER BY q.due_at, q.seq
          LIMIT 1
        ) q
        LEFT JOIN delivery_destinations d ON d.org_id = q.org_id AND d.destination_id = q.destination_id
      )
      SELECT
        shard, seq, org_id, destination_id, delivery_id, channel, event_id, attempt, first_attempt, wait_ms, left_ms,
        consecutive_failures, cooldown_round, cooldown_ms, lanes::int AS lanes, cooling_down::int AS cooling_down
      FROM page
      WHERE soon
        OR place = 1
      ORDER BY org_id, destination_id
    `,

    refill: (lanes, rows) => sql<QueueRow>`
      SELECT ${columns()}
      FROM unnest(
        ${int4Array(lanes.map((lane) => lane.shard))}::smallint[],
        ${textArray(lanes.map((lane) => lane.org_id))}::text[],
        ${textArray(lanes.map((lane) => lane.destination_id))}::text[]
      ) AS l (shard, org_id, destination_id)
      CROSS JOIN LATERAL (
        SELECT *
        FROM delivery_queue q
        WHERE q.shard = l.shard
          AND q.org_id = l.org_id
          AND q.destination_id = l.destination_id
        ORDER BY q.due_at, q.seq
        LIMIT ${rows}::int
      ) q
      LEFT JOIN delivery_destinations d ON d.org_id = q.org_id AND d.destination_id = q.destination_id
    `
  }
}
