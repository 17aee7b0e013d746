import { Array as Arr, Effect } from "effect"
import type { SqlClient } from "effect/sql"
import type { EventId, OrgId } from "../../domain/Ids.ts"
import { type Timestamp, toDate } from "../../domain/Time.ts"
import { afterCommit } from "../Database.ts"
import type { Channel } from "./Channel.ts"
import { booleans, floats, ints, texts } from "./Columns.ts"
import type { QueueRow } from "./Item.ts"
import { shardOf } from "./Shards.ts"

/**
 * Below its capacity by more than this a destination is filled without a lock: transactions that do not see each other yet cannot
 * be as many.
 */
const CLOSE_TO_FULL = 256

/** What a delivery that found no room is recorded with. */
const QUEUE_FULL = "queue full"

/** What a delivery is recorded with whose destination was removed before it was sent. */
const REMOVED = "the destination was removed"

/** One event for one destination. */
export interface Enqueued {
  readonly org_id: OrgId
  /** The name of a channel that the engine was given; another is a defect. */
  readonly channel: string
  readonly destination_id: string
  readonly event_id: EventId
  readonly label: string
  /** How much it carries, in the channel's own unit. Default 1. */
  readonly size?: number
}

/** What a transaction has queued, once it is committed. */
export interface Committed {
  /** As if they had been read at that moment. */
  readonly rows: ReadonlyArray<QueueRow>
  /** Whether these are all. */
  readonly complete: boolean
}

/** Where `insertRoomy` put a delivery: `seq` is null where its destination is close to full, and nothing was written. */
interface Placed {
  readonly delivery_id: string
  readonly seq: number | null
  readonly consecutive_failures: number | null
  readonly cooldown_round: number | null
  readonly cooldown_ms: number | null
}

interface Made extends Enqueued {
  readonly shard: number
  readonly delivery_id: string
  readonly size: number
  readonly capacity: number
  readonly delay: number
  readonly within: number | null
}

/** The channel of a name. A row names only channels that the engine was given. */
export const channelNamed = (
  channels: ReadonlyMap<string, Channel>,
  name: string
): Effect.Effect<Channel> => {
  const channel = channels.get(name)
  return channel === undefined
    ? Effect.die(new Error(`There is no channel ${name}`))
    : Effect.succeed(channel)
}

/**
 * The writing end of the queue. Everything here runs within the caller's transaction; `committed` hears of what it queued, and of
 * nothing that is rolled back.
 */
export const makeQueue = (
  sql: SqlClient.SqlClient,
  channels: ReadonlyMap<string, Channel>,
  clock: Effect.Effect<Timestamp>,
  committed: (queued: Committed) => Effect.Effect<void>
) => {
  /** Holds the destination's row to the end of the transaction, made if need be: from here on its count stands still. */
  const lockDestination = (org_id: OrgId, destination_id: string) => sql`
    INSERT INTO delivery_destinations AS d (org_id, destination_id)
    VALUES (${org_id}, ${destination_id})
    ON CONFLICT (org_id, destination_id) DO UPDATE
    SET consecutive_failures = d.consecutive_failures
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
          ${ints(list.map((one) => one.shard))}::smallint[],
          ${texts(list.map((one) => one.org_id))}::text[],
          ${texts(list.map((one) => one.destination_id))}::text[],
          ${texts(list.map((one) => one.delivery_id))}::text[],
          ${texts(list.map((one) => one.channel))}::text[],
          ${texts(list.map((one) => one.event_id))}::text[],
          ${texts(list.map((one) => one.label))}::text[],
          ${ints(list.map((one) => one.size))}::int[],
          ${ints(list.map((one) => one.capacity))}::int[],
          ${floats(list.map((one) => one.delay))}::float8[],
          ${floats(list.map((one) => one.within))}::float8[]
        ) AS g (shard, org_id, destination_id, delivery_id, channel, event_id, label, size, capacity, delay, within)
      ), destinations AS MATERIALIZED (
        -- Counted once a destination, however many deliveries it is given.
        SELECT
          d.org_id, d.destination_id, waiting.count >= d.capacity - d.given - ${CLOSE_TO_FULL}::int AS tight,
          h.consecutive_failures, h.cooldown_round,
          (extract(epoch FROM h.cooldown_until - statement_timestamp()) * 1000)::float8 AS cooldown_ms
        FROM (
          SELECT shard, org_id, destination_id, min(capacity) AS capacity, count(*) AS given
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
            LIMIT greatest(0, d.capacity - d.given - ${CLOSE_TO_FULL}::int)
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
          (shard, org_id, destination_id, delivery_id, channel, event_id, due_at, give_up_at, attempt, round_start)
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

  /** The same under the destination's lock, and past the capacity as failed. */
  const insertTight = Effect.fnUntraced(function* (list: Arr.NonEmptyReadonlyArray<Made>, now: Timestamp) {
    const { capacity, destination_id, org_id } = list[0]
    yield* lockDestination(org_id, destination_id)
    const free = yield* room(org_id, destination_id, capacity)
    yield* sql`
      WITH given AS MATERIALIZED (
        SELECT *
        FROM unnest(
          ${texts(list.map((one) => one.delivery_id))}::text[],
          ${texts(list.map((one) => one.channel))}::text[],
          ${texts(list.map((one) => one.event_id))}::text[],
          ${texts(list.map((one) => one.label))}::text[],
          ${ints(list.map((one) => one.size))}::int[],
          ${floats(list.map((one) => one.delay))}::float8[],
          ${floats(list.map((one) => one.within))}::float8[],
          ${booleans(list.map((_, index) => index < free))}::boolean[]
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
        (shard, org_id, destination_id, delivery_id, channel, event_id, due_at, give_up_at, attempt, round_start)
      SELECT
        ${shardOf(destination_id)}::smallint, ${org_id}, ${destination_id}, delivery_id, channel, event_id,
        now() + delay * interval '1 millisecond', now() + within * interval '1 millisecond', 0, 0
      FROM given
      WHERE fits
      ORDER BY place
    `
  })

  const enqueue = Effect.fnUntraced(function* (list: ReadonlyArray<Enqueued>) {
    if (list.length === 0) return []
    const now = yield* clock
    const made: Array<Made> = []
    for (const one of list) {
      const { ids, policy } = yield* channelNamed(channels, one.channel)
      const { capacity, retry } = policy
      made.push({
        size: 1,
        ...one,
        shard: shardOf(one.destination_id),
        delivery_id: yield* ids.generate,
        capacity,
        delay: retry.delays[0] ?? 0,
        within: retry.within
      })
    }
    const ids = made.map((one) => one.delivery_id)
    const places = new Map((yield* insertRoomy(made, now)).map((place) => [place.delivery_id, place]))
    const rows = rowsOf(made, places)
    yield* afterCommit(committed({ rows, complete: rows.length === made.length }))
    if (rows.length === made.length) return ids
    const roomy = new Set(rows.map((row) => row.delivery_id))
    const byDestination = Object.values(
      Arr.groupBy(
        made.filter((one) => !roomy.has(one.delivery_id)),
        (one) => one.destination_id
      )
    )
    // Locks are taken in one order everywhere, or two transactions could wait for each other.
    byDestination.sort((a, b) => (a[0].destination_id < b[0].destination_id ? -1 : 1))
    for (const destination of byDestination) yield* insertTight(destination, now)
    return ids
  })

  const discard = Effect.fnUntraced(function* (org_id: OrgId, destination_id: string) {
    const now = yield* clock
    yield* sql`
      WITH gone AS (
        DELETE FROM delivery_queue
        WHERE shard = ${shardOf(destination_id)}::smallint
          AND org_id = ${org_id}
          AND destination_id = ${destination_id}
        RETURNING delivery_id
      )
      UPDATE deliveries d
      SET status = 'failed', last_error = ${REMOVED}, finished_at = ${toDate(now)}::timestamptz
      FROM gone
      WHERE d.org_id = ${org_id}
        AND d.destination_id = ${destination_id}
        AND d.delivery_id = gone.delivery_id
    `
    yield* sql`
      DELETE FROM delivery_destinations
      WHERE org_id = ${org_id}
        AND destination_id = ${destination_id}
    `
  })

  return { enqueue, discard, lockDestination, room }
}

/** Those that were queued, as a read at this moment would show them. */
const rowsOf = (made: ReadonlyArray<Made>, places: ReadonlyMap<string, Placed>): ReadonlyArray<QueueRow> => {
  const rows: Array<QueueRow> = []
  for (const one of made) {
    const place = places.get(one.delivery_id)
    if (place === undefined || place.seq === null) continue
    rows.push({
      shard: one.shard,
      seq: place.seq,
      org_id: one.org_id,
      destination_id: one.destination_id,
      delivery_id: one.delivery_id,
      channel: one.channel,
      event_id: one.event_id,
      attempt: 0,
      round_start: 0,
      wait_ms: one.delay,
      left_ms: one.within,
      consecutive_failures: place.consecutive_failures,
      cooldown_round: place.cooldown_round,
      cooldown_ms: place.cooldown_ms
    })
  }
  return rows
}

export type DeliveryQueue = ReturnType<typeof makeQueue>
