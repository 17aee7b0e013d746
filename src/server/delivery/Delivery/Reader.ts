import { Clock, Effect, Latch } from "effect"
import type { SqlClient, SqlError } from "effect/sql"
import type { Dispatcher } from "./Dispatcher.ts"
import { type Lane, LANE_ITEMS } from "./Lane.ts"
import { type HeadRow, makeQueueReads, SWEEP_LANES } from "./QueueReads.ts"
import { type Shards } from "./Shards.ts"
import { monotonicMillis } from "../../concurrency/monotonicMillis.ts"

/**
 * Rows before the newest that are read again: numbers are given out before their transactions commit, so a row may appear behind
 * one that was read.
 */
const OVERLAP = 250

/**
 * How long a row before the newest goes on being read again: between this and twice this. What is committed later is found by the
 * sweep. Without an end, the rows of a destination that cools down would be read again with every new one.
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

/** How far ahead of their time lanes are kept in memory: until the sweep after the next one would find them, were they let go. */
export const horizonMillis = (options: ReaderOptions): number => 2 * options.sweepMillis

/** What the last sweep found of one channel. */
export interface Swept {
  /** How long the longest wait beyond its time was, where no cooldown is the reason. */
  readonly overdueMillis: number
  /** Lanes that cool down. */
  readonly cooling: number
}

/** Brings rows from the store into the lanes. */
export interface Reader {
  /** Says that there may be new rows. */
  readonly signal: () => void
  /** Says that lanes may have been missed. */
  readonly sweepSoon: () => void
  /** By channel: what the last sweep found. */
  readonly swept: () => ReadonlyMap<string, Swept>
  /** One turn of each loop: waits for its signal or its time, then reads. */
  readonly turns: {
    /** The tails of the shards that are here. */
    readonly tail: Effect.Effect<void, SqlError.SqlError>
    /** The first row of every lane of these shards. */
    readonly sweep: Effect.Effect<void, SqlError.SqlError>
    /** More for lanes that ran low. */
    readonly refill: Effect.Effect<void, SqlError.SqlError>
  }
}

/** Reads for the shards of one process. */
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

    const queue = makeQueueReads(sql)
    const horizon = horizonMillis(options)

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
      return dispatcher.reading(queue.tail(numbers, marks, limit), (rows) => {
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
      })
    })

    /** Until the tail is read next without a signal. */
    const tailWait = (): number =>
      owed
        ? Math.min(options.pollMillis, Math.max(0, overlapDue - monotonicMillis(clock)))
        : options.pollMillis

    let swept: ReadonlyMap<string, Swept> = new Map()

    const sweepShard = Effect.fnUntraced(function* (shard: number, found: Map<string, Swept>) {
      let after: readonly [string, string] = ["", ""]
      while (shards.owned.has(shard)) {
        let page: ReadonlyArray<HeadRow> = []
        yield* dispatcher.reading(queue.heads(shard, after, horizon), (rows) => {
          page = rows
          count(rows, found)
          dispatcher.offerHeads(rows, monotonicMillis(clock))
        })
        const last = page.at(-1)
        if (last === undefined || last.lanes < SWEEP_LANES) break
        after = [last.org_id, last.destination_id]
      }
    })

    const sweep = Effect.gen(function* () {
      const found = new Map<string, Swept>()
      for (const shard of [...shards.owned.keys()]) yield* sweepShard(shard, found)
      swept = found
    })

    const refillOf = (lanes: ReadonlyArray<Lane>) => {
      const rows = Math.max(...lanes.map((lane) => lane.held)) + LANE_ITEMS
      return dispatcher
        .reading(queue.refill(lanes, rows), (found) => {
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
        })
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
      swept: () => swept,
      turns: {
        tail: Effect.suspend(() => awaited(tailDue, tailWait())).pipe(
          Effect.andThen(readTail),
          Effect.andThen(Effect.sleep(PACE_MILLIS))
        ),
        sweep: Effect.andThen(awaited(sweepDue, options.sweepMillis), sweep),
        refill: Effect.andThen(dispatcher.low.await, refill)
      }
    }
  })

/** Adds what a page of a sweep shows. */
const count = (rows: ReadonlyArray<HeadRow>, found: Map<string, Swept>): void => {
  const cooling = new Map<string, number>()
  for (const row of rows) {
    const { channel } = row
    const { cooling: before, overdueMillis } = found.get(channel) ?? { cooling: 0, overdueMillis: 0 }
    const late = (row.cooldown_ms ?? 0) <= 0 ? Math.max(overdueMillis, -row.wait_ms) : overdueMillis
    const added = cooling.has(channel) ? 0 : row.cooling
    cooling.set(channel, row.cooling)
    found.set(channel, { overdueMillis: late, cooling: before + added })
  }
}
