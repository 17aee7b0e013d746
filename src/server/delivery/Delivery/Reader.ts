import { Clock, Effect, Latch } from "effect"
import type { SqlError } from "effect/sql"
import type { Worker } from "../../concurrency/Worker.ts"
import type { DeliveryStore } from "./DeliveryStore.ts"
import type { Dispatcher } from "./Dispatcher.ts"
import { type Lane, LANE_CAPACITY } from "./Lane.ts"
import { type HeadRow, SWEEP_LANES, SWEEP_SHARDS, type SweepPosition } from "./QueueReads.ts"
import { type Shards } from "./Shards.ts"
import { monotonicMillis } from "../../concurrency/monotonicMillis.ts"

/**
 * Rows before the watermark that are read again. A sequence number is assigned before its transaction commits, so a row
 * may become visible after a row with a higher number was read.
 */
const REREAD_ROWS = 250

/**
 * How long a row before the watermark is read again: between once and twice this. A row that commits later is found by
 * the sweep. Without a limit, the rows of a destination in cooldown would be read again with every new row.
 */
const STABLE_AFTER_MILLIS = 2_000

/**
 * The minimum pause between two such rereads, the pause as a multiple of the last reread's duration, and its maximum. If
 * every signal reread them, waiting rows would be read hundreds of times a second, and an engine that is behind would
 * fall further behind. After a read that hung, rows that committed late must not wait for the sweep, behind which newer
 * rows of their destination would be sent.
 */
const REREAD_INTERVAL_MILLIS = 100
const REREAD_COST_FACTOR = 10
const MAX_REREAD_PAUSE_MILLIS = 2_000

const rereadPause = (lastReadMillis: number): number =>
  Math.min(MAX_REREAD_PAUSE_MILLIS, Math.max(REREAD_INTERVAL_MILLIS, lastReadMillis * REREAD_COST_FACTOR))

/** New rows in one read, divided among the shards, so that accepting them does not block the event loop for long. */
const TAIL_ROWS = 8_192

/** Lanes refilled by one statement. */
const REFILL_LANES = 64

/** The pause between two reads of the tail while rows keep arriving. */
const TAIL_PAUSE_MILLIS = 4

/** How often the queue is read. */
export interface ReaderOptions {
  /** Interval between reads of the tail without a signal, in milliseconds, while another replica may add rows. */
  readonly pollMillis: number
  /** Interval between sweeps over the first rows of all lanes, in milliseconds. */
  readonly sweepMillis: number
}

/** Signals carry the load; a slow poll catches lost signals, and the sweep catches everything else. */
export const defaultReader: ReaderOptions = { pollMillis: 1_000, sweepMillis: 5_000 }

/**
 * How far ahead of their time lanes are kept in memory: a dropped lane must still be found by the sweep after the next
 * one.
 */
export const horizonMillis = (options: ReaderOptions): number => 2 * options.sweepMillis

/** The result of the last sweep for one channel. */
export interface ChannelSweep {
  /** How long the most overdue delivery has been due, in milliseconds, leaving out destinations in cooldown. */
  readonly overdueMillis: number
  /** Lanes in cooldown. */
  readonly coolingDown: number
}

/**
 * Reads rows of the owned shards from the database into the lanes, in three ways:
 *
 * - the *tail* reads new rows after each shard's watermark, on a signal or by a slow poll;
 *
 * - the *refill* reads more rows for lanes that ran low;
 *
 * - the *sweep* reads the first row of every lane every few seconds, and so finds deliveries that the tail and the refill
 * missed or that were dropped from memory.
 *
 * The tail depends on row numbers that are nearly in the order of the commits. If connections take numbers in blocks,
 * they are not, and each read of the tail requests a sweep as well.
 */
export interface Reader {
  /** Signals that the queue may have new rows. */
  readonly signalNewRows: () => void
  /** Requests a sweep now, since lanes may have been missed. */
  readonly requestSweep: () => void
  /** The results of the last sweep, by channel. */
  readonly lastSweep: () => ReadonlyMap<string, ChannelSweep>
  /** Reads new rows. A run is short, so if it does not end, the queue cannot be read. */
  readonly tail: Worker<SqlError.SqlError, never>
  /** The sweep and the refill. */
  readonly workers: ReadonlyArray<Worker<SqlError.SqlError, never>>
}

/** Reads the queue for the shards of one replica. Due times are on `dueClock`. */
export const makeReader = (
  store: DeliveryStore,
  dueClock: Clock.Clock,
  shards: Shards,
  dispatcher: Dispatcher,
  options: ReaderOptions
): Effect.Effect<Reader> =>
  Effect.gen(function* () {
    const clock = yield* Clock.Clock
    const tailDue = Latch.makeUnsafe(false)
    const sweepDue = Latch.makeUnsafe(false)

    /**
     * Begins a read. The function it returns tells the time at which the waits that were read began, on the clock of due times: when the
     * rows have arrived, so that none is taken for due too early. A clock of its own is one that a test moves, perhaps during the read, and
     * its statement has counted from before.
     */
    const beginRead = (): (() => number) => {
      const before = monotonicMillis(dueClock)
      return () => (dueClock === clock ? monotonicMillis(dueClock) : before)
    }
    const horizon = horizonMillis(options)

    /**
     * When the rows before the watermark may be read again, and whether a reread is still pending since the last
     * signal.
     */
    let rereadDue = 0
    let rereadPending = false

    const readable = () => [...shards.owned.values()].filter(({ draining }) => !draining)

    const readTail = Effect.suspend(() => {
      const reading = readable()
      if (reading.length === 0) return Effect.void
      const now = monotonicMillis(clock)
      const again = now >= rereadDue
      rereadPending = !again
      const ranges = reading.map((one) => {
        const { shard, watermark } = one
        if (!again) return { shard, reread: watermark, watermark }
        const reread = Math.max(one.stableWatermark, watermark - REREAD_ROWS, 0)
        // Moved after this reread, which may be the first for a while: rows below it are not read again.
        if (now - one.stableSince >= STABLE_AFTER_MILLIS) {
          one.stableWatermark = one.nextStableWatermark
          one.nextStableWatermark = watermark
          one.stableSince = now
        }
        return { shard, reread, watermark }
      })
      const limit = Math.ceil(TAIL_ROWS / reading.length)
      const readAt = beginRead()
      return dispatcher.trackRead(store.tail(ranges, limit), (rows) => {
        const byShard = Map.groupBy(rows, ({ shard }) => shard)
        for (const one of reading) {
          const { watermark } = one
          const added = (byShard.get(one.shard) ?? []).filter(({ seq }) => seq > watermark)
          one.watermark = added.reduce((highest, { seq }) => Math.max(highest, seq), watermark)
          if (added.length >= limit) tailDue.openUnsafe()
        }
        dispatcher.offer(rows, readAt(), now)
        const after = monotonicMillis(clock)
        if (again) rereadDue = after + rereadPause(after - now)
      })
    })

    /**
     * How long until the tail is read without a signal, in milliseconds. A lone replica adds all rows itself, so the
     * sweep's interval is enough.
     */
    const tailWait = (): number => {
      const poll = shards.hasPeers() ? options.pollMillis : options.sweepMillis
      return rereadPending ? Math.min(poll, Math.max(0, rereadDue - monotonicMillis(clock))) : poll
    }

    /** Whether numbers come in blocks, once that was read; altering the sequence has an effect on engines that start later. */
    let hasCachedNumbers: boolean | undefined = undefined
    /** How long the sweep pauses after the last one, in milliseconds, if each read of the tail requests one. */
    let sweepPause = 0

    const readNewRows = Effect.gen(function* () {
      hasCachedNumbers ??= yield* store.hasCachedNumbers
      yield* readTail
      if (hasCachedNumbers) sweepDue.openUnsafe()
    })

    let swept: ReadonlyMap<string, ChannelSweep> = new Map()

    const sweep = Effect.gen(function* () {
      const began = monotonicMillis(clock)
      const found = new Map<string, ChannelSweep>()
      // While the queue is empty, this is the only statement.
      const nonEmpty = yield* store.nonEmpty(readable().map(({ shard }) => shard))
      const left: Array<SweepPosition> = nonEmpty.map(({ shard }) => ({
        shard,
        org_id: "",
        destination_id: ""
      }))
      while (left.length > 0) {
        const positions = left
          .splice(0, SWEEP_SHARDS)
          .filter(({ shard }) => shards.owned.get(shard)?.draining === false)
        if (positions.length === 0) continue
        const beganAt = monotonicMillis(clock)
        const readAt = beginRead()
        yield* dispatcher.trackRead(store.heads(positions, horizon), (rows) => {
          count(rows, found)
          if (dispatcher.offerHeads(rows, readAt(), beganAt, hasCachedNumbers === true)) sweepDue.openUnsafe()
          // The last lane of a shard, in the order of the rows.
          const ends = new Map(rows.flatMap((row) => (row.lanes < SWEEP_LANES ? [] : [[row.shard, row]])))
          left.push(...ends.values())
        })
      }
      swept = found
      sweepPause = hasCachedNumbers === true ? rereadPause(monotonicMillis(clock) - began) : 0
    })

    const refillLanes = (lanes: ReadonlyArray<Lane>) => {
      const rows = Math.max(...lanes.map((lane) => lane.loaded)) + LANE_CAPACITY
      const readAt = beginRead()
      return dispatcher
        .trackRead(store.refill(lanes, rows), (found) => {
          const byLane = Map.groupBy(found, (row) => `${row.org_id}/${row.destination_id}`)
          dispatcher.refill(
            new Map(
              lanes.map((lane) => {
                const own = byLane.get(lane.key) ?? []
                return [lane, { rows: own, complete: own.length < rows }]
              })
            ),
            readAt()
          )
        })
        .pipe(
          // The lanes request another refill, which runs once the database is available again.
          Effect.tapCause(() =>
            Effect.sync(() =>
              dispatcher.refill(new Map(lanes.map((lane) => [lane, { rows: [], complete: false }])), readAt())
            )
          )
        )
    }

    const refill = Effect.suspend(() => {
      const lanes = dispatcher.takeLowLanes(REFILL_LANES)
      return lanes.length === 0 ? Effect.void : refillLanes(lanes)
    })

    /** Resets the signal, then reads: a signal that arrives during the read starts another. */
    const resetThen = <A>(signal: Latch.Latch, read: Effect.Effect<A, SqlError.SqlError>) =>
      Effect.suspend(() => {
        signal.closeUnsafe()
        return read
      })

    return {
      signalNewRows: () => void tailDue.openUnsafe(),
      requestSweep: () => void sweepDue.openUnsafe(),
      lastSweep: () => swept,
      tail: {
        name: "delivery_tail",
        runOnce: Effect.map(resetThen(tailDue, readNewRows), () => ({
          next: Math.max(TAIL_PAUSE_MILLIS, tailWait())
        })),
        every: options.pollMillis,
        wakeUp: Effect.andThen(Effect.sleep(TAIL_PAUSE_MILLIS), tailDue.await),
        firstRun: "after_pause"
      },
      workers: [
        {
          name: "delivery_sweep",
          runOnce: resetThen(sweepDue, sweep),
          every: options.sweepMillis,
          clock: dueClock,
          wakeUp: Effect.andThen(
            Effect.suspend(() => Effect.sleep(sweepPause)),
            sweepDue.await
          ),
          firstRun: "after_pause"
        },
        { name: "delivery_refill", runOnce: refill, wakeUp: dispatcher.hasLowLanes.await }
      ]
    }
  })

/** Adds a page of a sweep to its results. */
const count = (rows: ReadonlyArray<HeadRow>, found: Map<string, ChannelSweep>): void => {
  const counted = new Map<string, number>()
  for (const row of rows) {
    const { channel } = row
    const { coolingDown: before, overdueMillis } = found.get(channel) ?? { coolingDown: 0, overdueMillis: 0 }
    const isWaiting = (row.cooldown_ms ?? 0) <= 0
    const longest = isWaiting ? Math.max(overdueMillis, -row.wait_ms) : overdueMillis
    const added = counted.has(channel) ? 0 : row.cooling_down
    counted.set(channel, row.cooling_down)
    found.set(channel, { overdueMillis: longest, coolingDown: before + added })
  }
}
