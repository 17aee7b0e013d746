import { Effect } from "effect"
import type { SqlClient, SqlError } from "effect/sql"
import { currentTime } from "../../store/currentTime.ts"
import { int4Array, int8Array, textArray } from "../../store/pgArrays.ts"
import type { StoreClock } from "../../store/StoreClock.ts"
import type { QueueRow } from "./QueuedDelivery.ts"
import type { Lane } from "./Lane.ts"
import { PART_OF_ROW } from "./virtualShards.ts"

/** Lanes in one page of a sweep. */
export const SWEEP_LANES = 500

/** A shard of the queue, and which parts of it are read. */
export interface ShardParts {
  readonly shard: number
  /** The parts, as a set of bits (`partBit`). */
  readonly parts: number
}

/** A row that the tail has read. */
export interface TailRow extends QueueRow {
  /** Rows of its shard that were read, including those of parts that were not asked for. */
  readonly scanned: number
}

/** The first row of a lane, as returned by a sweep. */
export interface HeadRow extends QueueRow {
  /** Whether it is of a part that was asked for. */
  readonly is_included: boolean
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
  /**
   * Reads up to `limit` rows after each shard's watermark, and returns those of the given parts, plus the last one of each shard so that
   * it is known how far was read.
   */
  readonly tail: (
    shards: ReadonlyArray<ShardParts & { readonly watermark: number }>,
    limit: number
  ) => Effect.Effect<ReadonlyArray<TailRow>, SqlError.SqlError>
  /** Returns the shards that have rows. */
  readonly nonEmpty: (
    shards: ReadonlyArray<number>
  ) => Effect.Effect<ReadonlyArray<{ readonly shard: number }>, SqlError.SqlError>
  /**
   * Reads one page of a shard's lanes, starting after the lane `after`. Returns the first row of each lane of the given parts that has
   * something to do within the horizon, plus the last lane of the page and of each channel so that the end and the counts of the page
   * are known.
   */
  readonly heads: (
    shard: ShardParts,
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

  /** Whether the row `q` is of a set of parts of its shard. */
  const isOf = (parts: string) => sql.literal(`(${parts} >> ${PART_OF_ROW}) & 1 = 1`)

  return {
    hasCachedNumbers: Effect.map(
      sql<{ readonly cached: boolean }>`
        SELECT seqcache > 1 AS cached
        FROM pg_sequence
        WHERE seqrelid = pg_get_serial_sequence('delivery_queue', 'seq')::regclass
      `,
      ([row]) => row?.cached === true
    ),

    tail: (shards, limit) => sql<TailRow>`
      SELECT ${columns()}, q.scanned::int AS scanned
      FROM unnest(
        ${int4Array(shards.map(({ shard }) => shard))}::smallint[],
        ${int4Array(shards.map(({ parts }) => parts))}::int[],
        ${int8Array(shards.map(({ watermark }) => watermark))}::bigint[]
      ) AS s (shard, parts, watermark)
      CROSS JOIN LATERAL (
        SELECT *, count(*) OVER () AS scanned, max(seq) OVER () AS last_seq
        FROM (
          SELECT *
          FROM delivery_queue q
          WHERE q.shard = s.shard
            AND q.seq > s.watermark
          ORDER BY q.seq
          LIMIT ${limit}::int
        ) q
      ) q
      LEFT JOIN delivery_destinations d ON d.org_id = q.org_id AND d.destination_id = q.destination_id
      WHERE ${isOf("s.parts")}
        OR q.seq = q.last_seq
    `,

    nonEmpty: (shards) => sql<{ readonly shard: number }>`
      SELECT s.shard::int AS shard
      FROM unnest(${int4Array(shards)}::smallint[]) AS s (shard)
      WHERE EXISTS (SELECT FROM delivery_queue q WHERE q.shard = s.shard)
    `,

    // A skip scan (a loose index scan): one index probe a lane instead of one a row.
    heads: ({ parts, shard }, after, horizonMillis) => sql<HeadRow>`
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
      ), included AS (
        SELECT q.*, ${isOf("p.parts")} AS is_included, max(q.count) OVER () AS lanes
        FROM lanes q
        CROSS JOIN (SELECT ${parts}::int AS parts) p
      ), page AS (
        SELECT
          ${columns()}, l.is_included, l.lanes,
          greatest(q.due_at, d.cooldown_until)
            <= ${now()} + ${horizonMillis}::float8 * interval '1 millisecond' AS soon,
          count(*) FILTER (WHERE l.is_included AND d.cooldown_until > ${now()}) OVER (PARTITION BY q.channel) AS cooling_down,
          row_number() OVER (PARTITION BY q.channel ORDER BY l.count DESC) AS place
        FROM included l
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
        WHERE l.is_included
          OR l.count = l.lanes
      )
      SELECT
        shard, seq, org_id, destination_id, delivery_id, channel, event_id, attempt, first_attempt, wait_ms, left_ms,
        consecutive_failures, cooldown_round, cooldown_ms, is_included, lanes::int AS lanes, cooling_down::int AS cooling_down
      FROM page
      WHERE (soon AND is_included)
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
