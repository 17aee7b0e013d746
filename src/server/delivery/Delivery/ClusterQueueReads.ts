/**
 * The reads of the queue on a Citus cluster, where each is a query of all nodes. They cannot probe the index lane by lane, as the reads of
 * `QueueReads` do: a node reads its rows of the shards, without payloads, and returns the first row of each lane.
 */
import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import { currentTime } from "../../store/currentTime.ts"
import { int4Array, int8Array, textArray } from "../../store/pgArrays.ts"
import type { StoreClock } from "../../store/StoreClock.ts"
import type { QueueRow } from "./QueuedDelivery.ts"
import { headColumns, type HeadRow, queueColumns, type QueueReads, SWEEP_LANES } from "./QueueReads.ts"

/** Lanes that are refilled concurrently, each on its node. */
const REFILL_CONCURRENCY = 8

/** `QueueReads` of a cluster. A test compares the rows of both. */
export const makeClusterQueueReads = (
  sql: SqlClient.SqlClient,
  clock: StoreClock["Service"]
): Omit<QueueReads, "hasCachedNumbers"> => {
  const now = () => currentTime(sql, clock)
  const columns = () => queueColumns(sql, now())

  return {
    tail: (ranges, limit) => {
      const repeated = ranges.filter(({ reread, watermark }) => reread < watermark)
      const newRows = sql<QueueRow>`
        SELECT ${columns()}
        FROM delivery_queue q
        JOIN unnest(
          ${int4Array(ranges.map(({ shard }) => shard))}::smallint[],
          ${int8Array(ranges.map(({ watermark }) => watermark))}::bigint[]
        ) AS s (shard, watermark) ON s.shard = q.shard AND s.watermark < q.seq
        LEFT JOIN delivery_destinations d ON d.org_id = q.org_id AND d.destination_id = q.destination_id
        ORDER BY q.seq
        LIMIT ${limit * ranges.length}::int
      `
      if (repeated.length === 0) return newRows
      const rowsAgain = sql<QueueRow>`
        SELECT ${columns()}
        FROM delivery_queue q
        JOIN unnest(
          ${int4Array(repeated.map(({ shard }) => shard))}::smallint[],
          ${int8Array(repeated.map(({ reread }) => reread))}::bigint[],
          ${int8Array(repeated.map(({ watermark }) => watermark))}::bigint[]
        ) AS s (shard, reread, watermark) ON s.shard = q.shard AND s.reread < q.seq AND q.seq <= s.watermark
        LEFT JOIN delivery_destinations d ON d.org_id = q.org_id AND d.destination_id = q.destination_id
      `
      return Effect.zipWith(rowsAgain, newRows, (before, after) => [...before, ...after])
    },

    nonEmpty: (shards) => sql<{ readonly shard: number }>`
      SELECT DISTINCT shard::int AS shard
      FROM delivery_queue
      WHERE shard = ANY(${int4Array(shards)}::smallint[])
    `,

    heads: (positions, horizonMillis) => sql<HeadRow>`
      WITH heads AS MATERIALIZED (
        SELECT DISTINCT ON (q.org_id, q.destination_id, q.shard) ${columns()}, q.due_at, d.cooldown_until
        FROM delivery_queue q
        JOIN unnest(
          ${int4Array(positions.map(({ shard }) => shard))}::smallint[],
          ${textArray(positions.map(({ org_id }) => org_id))}::text[],
          ${textArray(positions.map(({ destination_id }) => destination_id))}::text[]
        ) AS s (shard, org_id, destination_id)
          ON s.shard = q.shard AND (q.org_id, q.destination_id) > (s.org_id, s.destination_id)
        LEFT JOIN delivery_destinations d ON d.org_id = q.org_id AND d.destination_id = q.destination_id
        ORDER BY q.org_id, q.destination_id, q.shard, q.due_at, q.seq
      ), numbered AS (
        SELECT *, row_number() OVER (PARTITION BY shard ORDER BY org_id, destination_id) AS count
        FROM heads
      ), page AS (
        SELECT
          *,
          max(count) OVER (PARTITION BY shard) AS lanes,
          count(*) FILTER (WHERE cooldown_until > ${now()}) OVER (PARTITION BY channel) AS cooling_down,
          row_number() OVER (PARTITION BY channel ORDER BY shard DESC, count DESC) AS place
        FROM numbered
        WHERE count <= ${SWEEP_LANES}::int
      )
      SELECT ${sql.literal(headColumns)}
      FROM page
      WHERE greatest(due_at, cooldown_until) <= ${now()} + ${horizonMillis}::float8 * interval '1 millisecond'
        OR (lanes = ${SWEEP_LANES}::int AND count = lanes)
        OR place = 1
      ORDER BY shard, org_id, destination_id
    `,

    refill: (lanes, rows) =>
      Effect.map(
        Effect.forEach(
          lanes,
          ({ destination_id, org_id, shard }) => sql<QueueRow>`
            SELECT ${columns()}
            FROM delivery_queue q
            LEFT JOIN delivery_destinations d ON d.org_id = q.org_id AND d.destination_id = q.destination_id
            WHERE q.shard = ${shard}::smallint
              AND q.org_id = ${org_id}
              AND q.destination_id = ${destination_id}
            ORDER BY q.due_at, q.seq
            LIMIT ${rows}::int
          `,
          { concurrency: REFILL_CONCURRENCY }
        ),
        (found) => found.flat()
      )
  }
}
