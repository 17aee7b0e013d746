import { Effect } from "effect"
import type { SqlClient, SqlError, Statement } from "effect/sql"
import { currentTime } from "../../store/currentTime.ts"
import { int4Array, int8Array, textArray } from "../../store/pgArrays.ts"
import type { StoreClock } from "../../store/StoreClock.ts"
import type { QueueRow } from "./QueuedDelivery.ts"
import type { Lane } from "./Lane.ts"

/** Shards in one read of a sweep, and lanes of each in it. */
export const SWEEP_SHARDS = 16
export const SWEEP_LANES = 32

/** The rows of a shard that the tail reads: their numbers are after `reread`, which is at most `watermark`. */
export interface TailRange {
  readonly shard: number
  readonly reread: number
  readonly watermark: number
}

/** Where a sweep of a shard continues: after this lane. */
export interface SweepPosition {
  readonly shard: number
  readonly org_id: string
  readonly destination_id: string
}

/** The first row of a lane, as returned by a sweep. */
export interface HeadRow extends QueueRow {
  /** Lanes of the row's shard that were read; if they are `SWEEP_LANES`, the last one is returned and there may be more. */
  readonly lanes: number
  /** Lanes of the row's channel that are cooling down, over all shards that were read. */
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
  /**
   * Reads rows after each shard's watermark, and again those before it, from the row after `reread`. If a shard has more new rows than are
   * returned, at least one shard gets `limit` of them.
   */
  readonly tail: (
    ranges: ReadonlyArray<TailRange>,
    limit: number
  ) => Effect.Effect<ReadonlyArray<QueueRow>, SqlError.SqlError>
  /** Returns the shards that have rows. */
  readonly nonEmpty: (
    shards: ReadonlyArray<number>
  ) => Effect.Effect<ReadonlyArray<{ readonly shard: number }>, SqlError.SqlError>
  /**
   * Reads the next `SWEEP_LANES` lanes of each shard. Returns the first row of each lane that has something to do within the horizon, in
   * the order of shards and lanes, plus the last lane of each channel and of each shard that may have more, so that the counts and the
   * ends are known.
   */
  readonly heads: (
    positions: ReadonlyArray<SweepPosition>,
    horizonMillis: number
  ) => Effect.Effect<ReadonlyArray<HeadRow>, SqlError.SqlError>
  /** Reads the first rows of each lane, up to `rows` per lane. */
  readonly refill: (
    lanes: ReadonlyArray<Pick<Lane, "shard" | "org_id" | "destination_id">>,
    rows: number
  ) => Effect.Effect<ReadonlyArray<QueueRow>, SqlError.SqlError>
}

/** The columns of `QueueRow`, of a row `q` of the queue and the health `d` of its destination. */
export const queueColumns = (sql: SqlClient.SqlClient, now: Statement.Fragment): Statement.Fragment => sql`
  q.shard::int AS shard, q.seq::float8 AS seq, q.org_id, q.destination_id, q.delivery_id, q.channel, q.event_id,
  q.attempt, q.first_attempt,
  (extract(epoch FROM q.due_at - ${now}) * 1000)::float8 AS wait_ms,
  (extract(epoch FROM q.expires_at - ${now}) * 1000)::float8 AS left_ms,
  d.consecutive_failures, d.cooldown_round,
  (extract(epoch FROM d.cooldown_until - ${now}) * 1000)::float8 AS cooldown_ms`

/** The columns of `HeadRow`, of a page of a sweep. */
export const headColumns = `
  shard, seq, org_id, destination_id, delivery_id, channel, event_id, attempt, first_attempt, wait_ms, left_ms,
  consecutive_failures, cooldown_round, cooldown_ms, lanes::int AS lanes, cooling_down::int AS cooling_down`

/**
 * The statements that read the queue. Their rows are typed but not decoded: this engine wrote them, and a burst reads
 * thousands.
 */
export const makeQueueReads = (sql: SqlClient.SqlClient, clock: StoreClock["Service"]): QueueReads => {
  const now = () => currentTime(sql, clock)
  const columns = () => queueColumns(sql, now())

  return {
    hasCachedNumbers: Effect.map(
      sql<{ readonly cached: boolean }>`
        SELECT seqcache > 1 AS cached
        FROM pg_sequence
        WHERE seqrelid = pg_get_serial_sequence('delivery_queue', 'seq')::regclass
      `,
      ([row]) => row?.cached === true
    ),

    // The limit is that of new rows: rows that are read again must not stand in their way, nor be left out for them.
    tail: (ranges, limit) => sql<QueueRow>`
      SELECT ${columns()}
      FROM unnest(
        ${int4Array(ranges.map(({ shard }) => shard))}::smallint[],
        ${int8Array(ranges.map(({ reread }) => reread))}::bigint[],
        ${int8Array(ranges.map(({ watermark }) => watermark))}::bigint[]
      ) AS s (shard, reread, watermark)
      CROSS JOIN LATERAL (
        SELECT *
        FROM delivery_queue q
        WHERE s.reread < s.watermark
          AND q.shard = s.shard
          AND q.seq > s.reread
          AND q.seq <= s.watermark
        UNION ALL
        (
          SELECT *
          FROM delivery_queue q
          WHERE q.shard = s.shard
            AND q.seq > s.watermark
          ORDER BY q.seq
          LIMIT ${limit}::int
        )
      ) q
      LEFT JOIN delivery_destinations d ON d.org_id = q.org_id AND d.destination_id = q.destination_id
    `,

    nonEmpty: (shards) => sql<{ readonly shard: number }>`
      SELECT s.shard::int AS shard
      FROM unnest(${int4Array(shards)}::smallint[]) AS s (shard)
      WHERE EXISTS (SELECT FROM delivery_queue q WHERE q.shard = s.shard)
    `,

    // A skip scan (a loose index scan): one index probe a lane instead of one a row.
    heads: (positions, horizonMillis) => sql<HeadRow>`
      WITH lanes AS (
        SELECT s.shard, l.org_id, l.destination_id, l.count, max(l.count) OVER (PARTITION BY s.shard) AS lanes
        FROM unnest(
          ${int4Array(positions.map(({ shard }) => shard))}::smallint[],
          ${textArray(positions.map(({ org_id }) => org_id))}::text[],
          ${textArray(positions.map(({ destination_id }) => destination_id))}::text[]
        ) AS s (shard, org_id, destination_id)
        CROSS JOIN LATERAL (
          WITH RECURSIVE walk AS (
            (
              SELECT org_id, destination_id, 1 AS count
              FROM delivery_queue q
              WHERE q.shard = s.shard
                AND (q.org_id, q.destination_id) > (s.org_id, s.destination_id)
              ORDER BY org_id, destination_id
              LIMIT 1
            )
            UNION ALL
            SELECT n.org_id, n.destination_id, w.count + 1
            FROM walk w
            CROSS JOIN LATERAL (
              SELECT org_id, destination_id
              FROM delivery_queue q
              WHERE q.shard = s.shard
                AND (q.org_id, q.destination_id) > (w.org_id, w.destination_id)
              ORDER BY org_id, destination_id
              LIMIT 1
            ) n
            WHERE w.count < ${SWEEP_LANES}::int
          )
          SELECT org_id, destination_id, count
          FROM walk
        ) l
      ), page AS (
        SELECT
          ${columns()}, l.lanes,
          l.lanes = ${SWEEP_LANES}::int AND l.count = l.lanes AS is_end,
          greatest(q.due_at, d.cooldown_until)
            <= ${now()} + ${horizonMillis}::float8 * interval '1 millisecond' AS soon,
          count(*) FILTER (WHERE d.cooldown_until > ${now()}) OVER (PARTITION BY q.channel) AS cooling_down,
          row_number() OVER (PARTITION BY q.channel ORDER BY l.shard DESC, l.count DESC) AS place
        FROM lanes l
        CROSS JOIN LATERAL (
          SELECT *
          FROM delivery_queue q
          WHERE q.shard = l.shard
            AND q.org_id = l.org_id
            AND q.destination_id = l.destination_id
          ORDER BY q.due_at, q.seq
          LIMIT 1
        ) q
        LEFT JOIN delivery_destinations d ON d.org_id = q.org_id AND d.destination_id = q.destination_id
      )
      SELECT ${sql.literal(headColumns)}
      FROM page
      WHERE soon
        OR is_end
        OR place = 1
      ORDER BY shard, org_id, destination_id
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
