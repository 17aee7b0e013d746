import { ints, longs, texts } from "./Columns.ts"
import { Clock, Effect, Latch } from "effect"
import type { SqlClient, SqlError } from "effect/sql"
import type { Dispatcher } from "./Dispatcher.ts"
import type { QueueRow } from "./Item.ts"
import { type Lane, LANE_ITEMS } from "./Lane.ts"
import { monotonicMillis, type Shards } from "./Shards.ts"

/**
 * Rows before the newest that are read again: numbers are given out before their transactions commit, so a row may appear behind
 * one that was read.
 */
const OVERLAP = 250

/**
 * How long they are read again, at least; twice that at most. What is committed later is found by the sweep. Without an end, the
 * rows of a destination that cools down would be read again with every new one.
 */
const SETTLE_MILLIS = 2_000

/**
 * Between two such reads, at least, and so many times what the last one took. Read again with every signal, what waits would be read
 * hundreds of times a second, the more the longer it waits: an engine that is behind would fall further behind.
 */
const OVERLAP_EVERY_MILLIS = 100
const OVERLAP_SHARE = 10

/** New rows of one shard in one read: of all shards together no more than are taken in without holding anything up. */
const TAIL_ROWS = 250

/** Lanes whose first rows are read in one statement of a sweep. */
const SWEEP_LANES = 500

/** Lanes that are refilled in one statement. */
const REFILL_LANES = 64

/** Between two reads of the tail while rows keep coming. */
const PACE_MILLIS = 4

/** When the store is read. */
export interface ReaderOptions {
  /** How often the tail is read without a signal. */
  readonly pollMillis: number
  /** How often the first rows of all lanes are looked at. */
  readonly sweepMillis: number
}

/** A slow poll behind the signals, and a sweep behind both. */
export const defaultReader: ReaderOptions = { pollMillis: 1_000, sweepMillis: 5_000 }

/** Brings rows from the store into the lanes. */
export interface Reader {
  /** Says that there may be new rows. */
  readonly signal: () => void
  /** Says that lanes may have been missed. */
  readonly sweepSoon: () => void
  /** Reads the tails of the shards that are here. */
  readonly readTail: Effect.Effect<void, SqlError.SqlError>
  /** Looks at the first row of every lane of the shards that are here; answers with how many there are. */
  readonly sweep: Effect.Effect<number, SqlError.SqlError>
  /** By channel: how long the longest wait beyond its time was at the last sweep, where no cooldown is the reason. */
  readonly overdueMillis: () => ReadonlyMap<string, number>
  /** Reads on for lanes that ran low. */
  readonly refill: Effect.Effect<void, SqlError.SqlError>
  /** One turn of each loop: waits for its signal or its time, then reads. */
  readonly turns: {
    readonly tail: Effect.Effect<void, SqlError.SqlError>
    readonly sweep: Effect.Effect<void, SqlError.SqlError>
    readonly refill: Effect.Effect<void, SqlError.SqlError>
  }
}

/** Rows arrive as they were written by this engine: typed, not decoded, since a burst reads thousands. */
export const makeReader = (
  sql: SqlClient.SqlClient,
  shards: Shards,
  dispatcher: Dispatcher,
  options: ReaderOptions
): Effect.Effect<Reader> =>
  Effect.gen(function* () {
    const clock = yield* Clock.Clock
    const tailDue = Latch.makeUnsafe(false)
    const sweepDue = Latch.makeUnsafe(false)

    const columns = sql.literal(`
      q.shard::int AS shard, q.seq::float8 AS seq, q.org_id, q.destination_id, q.delivery_id, q.channel, q.event_id,
      q.attempt, q.round_start,
      (extract(epoch FROM q.due_at - statement_timestamp()) * 1000)::float8 AS wait_ms,
      (extract(epoch FROM q.give_up_at - statement_timestamp()) * 1000)::float8 AS left_ms,
      d.consecutive_failures, d.cooldown_round,
      (extract(epoch FROM d.cooldown_until - statement_timestamp()) * 1000)::float8 AS cooldown_ms`)

    /** When the rows before the newest may be read again, and whether a signal has come since they were. */
    let overlapDue = 0
    let owed = false

    const readTail = Effect.suspend(() => {
      const owned = [...shards.owned.values()].filter((one) => !one.leaving)
      if (owned.length === 0) return Effect.void
      const numbers = owned.map((one) => one.shard)
      const now = monotonicMillis(clock)
      const again = now >= overlapDue
      owed = !again
      const marks = owned.map((one) => {
        if (now - one.settledAt >= SETTLE_MILLIS) {
          one.settled = one.settling
          one.settling = one.mark
          one.settledAt = now
        }
        return again ? Math.max(one.settled, one.mark - OVERLAP, 0) : one.mark
      })
      const limit = again ? OVERLAP + TAIL_ROWS : TAIL_ROWS
      return dispatcher.reading(
        sql<QueueRow>`
          SELECT ${columns}
          FROM unnest(${ints(numbers)}::smallint[], ${longs(marks)}::bigint[]) AS s (shard, mark)
          CROSS JOIN LATERAL (
            SELECT *
            FROM delivery_queue q
            WHERE q.shard = s.shard
              AND q.seq > s.mark
            ORDER BY q.seq
            LIMIT ${limit}::int
          ) q
          LEFT JOIN delivery_destinations d ON d.org_id = q.org_id AND d.destination_id = q.destination_id
        `,
        (rows) => {
          const counts = new Map<number, number>()
          for (const { seq, shard } of rows) {
            const count = (counts.get(shard) ?? 0) + 1
            counts.set(shard, count)
            const one = shards.owned.get(shard)
            if (one !== undefined && seq > one.mark) one.mark = seq
            if (count === limit) tailDue.openUnsafe()
          }
          const after = monotonicMillis(clock)
          dispatcher.offer(rows, after)
          if (again) overlapDue = after + Math.max(OVERLAP_EVERY_MILLIS, (after - now) * OVERLAP_SHARE)
        }
      )
    })

    /** Until the tail is read next without a signal. */
    const tailWait = (): number =>
      owed
        ? Math.min(options.pollMillis, Math.max(0, overlapDue - monotonicMillis(clock)))
        : options.pollMillis

    /** The first rows of the lanes of a shard that come after a lane, as a skip scan: one probe per lane, not per row. */
    const heads = (shard: number, after: readonly [string, string]) => sql<QueueRow>`
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
        )
        SELECT ${columns}
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
        ORDER BY q.org_id, q.destination_id
      `

    let overdue: ReadonlyMap<string, number> = new Map()

    const sweepShard = Effect.fnUntraced(function* (shard: number, late: Map<string, number>) {
      let count = 0
      let after: readonly [string, string] = ["", ""]
      while (shards.owned.has(shard)) {
        let page: ReadonlyArray<QueueRow> = []
        yield* dispatcher.reading(heads(shard, after), (rows) => {
          page = rows
          for (const { channel, cooldown_ms, wait_ms } of rows) {
            if ((cooldown_ms ?? 0) <= 0 && -wait_ms > (late.get(channel) ?? 0)) late.set(channel, -wait_ms)
          }
          dispatcher.offerHeads(rows, monotonicMillis(clock))
        })
        count += page.length
        const last = page.at(-1)
        if (last === undefined || page.length < SWEEP_LANES) break
        after = [last.org_id, last.destination_id]
      }
      return count
    })

    const sweep = Effect.gen(function* () {
      let count = 0
      const late = new Map<string, number>()
      for (const shard of [...shards.owned.keys()]) count += yield* sweepShard(shard, late)
      overdue = late
      return count
    })

    const refillOf = (lanes: ReadonlyArray<Lane>) => {
      const rows = Math.max(...lanes.map((lane) => lane.held)) + LANE_ITEMS
      return dispatcher
        .reading(
          sql<QueueRow>`
          SELECT ${columns}
          FROM unnest(
            ${ints(lanes.map((lane) => lane.shard))}::smallint[],
            ${texts(lanes.map((lane) => lane.org_id))}::text[],
            ${texts(lanes.map((lane) => lane.destination_id))}::text[]
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
        `,
          (found) => {
            const byLane = Map.groupBy(found, (row) => `${row.org_id}/${row.destination_id}`)
            dispatcher.refilled(
              new Map(
                lanes.map((lane) => {
                  const own = byLane.get(lane.key) ?? []
                  return [lane, { rows: own, complete: own.length < rows }]
                })
              ),
              monotonicMillis(clock)
            )
          }
        )
        .pipe(
          // The lanes ask again, and are read again, when the store is back.
          Effect.tapCause(() =>
            Effect.sync(() =>
              dispatcher.refilled(
                new Map(lanes.map((lane) => [lane, { rows: [], complete: false }])),
                monotonicMillis(clock)
              )
            )
          )
        )
    }

    const refill = Effect.suspend(() => {
      const lanes = dispatcher.takeLow(REFILL_LANES)
      return lanes.length === 0 ? Effect.void : refillOf(lanes)
    })

    const awaited = (latch: Latch.Latch, millis: number) =>
      Effect.andThen(
        Effect.timeoutOption(latch.await, millis),
        Effect.sync(() => latch.closeUnsafe())
      )

    return {
      signal: () => void tailDue.openUnsafe(),
      sweepSoon: () => void sweepDue.openUnsafe(),
      readTail,
      sweep,
      overdueMillis: () => overdue,
      refill,
      turns: {
        tail: Effect.suspend(() => awaited(tailDue, tailWait())).pipe(
          Effect.andThen(readTail),
          Effect.andThen(Effect.sleep(PACE_MILLIS))
        ),
        sweep: Effect.andThen(awaited(sweepDue, options.sweepMillis), Effect.asVoid(sweep)),
        refill: Effect.andThen(dispatcher.low.await, refill)
      }
    }
  })
