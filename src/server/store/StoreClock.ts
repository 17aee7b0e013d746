import { Clock, Context, DateTime, Duration, Effect, Latch, Layer, References } from "effect"
import { SqlClient } from "effect/sql"
import type { Timestamp } from "../../domain/Time.ts"
import { monotonicMillis } from "../concurrency/monotonicMillis.ts"
import { runWorker, startWorkers } from "../concurrency/Worker.ts"
import { DueWork } from "./DueWork.ts"

/** Interval between measurements of the offset to the database's clock. */
const MEASURE_EVERY = Duration.seconds(30)

/** A measurement that took longer is repeated soon, in milliseconds: the offset may be wrong by as much. */
const INACCURATE_MILLIS = 250

/** Pause after a failed or inaccurate measurement. */
const RETRY_AFTER = Duration.seconds(5)

/** The offset is measured again at once when the machine's clock has moved this far against the monotonic clock, in milliseconds. */
const SET_MILLIS = 500

/**
 * The time for deadlines, due times and records: the database's, so that replicas with different clocks agree. It is the process's
 * monotonic clock plus a measured offset, so reading it costs no statement. Setting the machine's clock does not move it: a replica whose
 * clock is set an hour ahead must not expire approvals an hour early. A test can replace it by a clock that it moves itself.
 *
 * Only what becomes due by this time pauses on `clock`: approvals, retries, cooldowns, retention. Time-outs, leases, heartbeats and the
 * pauses that gather batches are part of real I/O, and stay on the process's clock.
 */
export class StoreClock extends Context.Service<
  StoreClock,
  {
    /** The current time, in whole milliseconds. */
    readonly now: Effect.Effect<Timestamp>
    /** The same in milliseconds since the Unix epoch, for code that runs with every request. */
    readonly millisUnsafe: () => number
    /** The clock for pauses until something is due, and for due times in memory. It may differ from `now` by the measured offset. */
    readonly clock: Clock.Clock
    /** The time that statements use instead of the database's own. Undefined in production. */
    readonly simulated: (() => Date) | undefined
    /** Account of the workers that pause on `clock`, for a test that moves it. Undefined in production. */
    readonly dueWork?: DueWork | undefined
  }
>()("countersign/server/store/StoreClock") {
  /** The database's time. */
  static readonly layer = Layer.effect(
    StoreClock,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const clock = yield* Clock.Clock
      const now = () => monotonicMillis(clock)
      // The monotonic clock stands still while the machine is suspended; the machine's clock does not, and can be set.
      const machineOffset = () => clock.currentTimeMillisUnsafe() - now()
      const isMoved = Latch.makeUnsafe(false)
      let measuredMachineOffset = machineOffset()
      let offset = measuredMachineOffset

      const measure = Effect.gen(function* () {
        isMoved.closeUnsafe()
        const machineOffsetBefore = machineOffset()
        const before = now()
        const [row] = yield* sql<{ readonly now: Date }>`SELECT clock_timestamp() AS now`
        const after = now()
        if (row === undefined) return
        // The database took the timestamp, a whole millisecond, at some time of the round trip. So the offset is between
        // these two, however long the response or this process took.
        const least = row.now.getTime() - after
        const most = row.now.getTime() + 1 - before
        // The offset so far is kept where it agrees: it may be more accurate than this measurement.
        const nearest = Math.min(Math.max(offset, least), most)
        if (Math.abs(nearest - offset) > 1) offset = Math.round(nearest)
        measuredMachineOffset = machineOffsetBefore
        return most - least > INACCURATE_MILLIS ? { next: RETRY_AFTER } : undefined
      })

      const first = yield* measure
      yield* startWorkers([
        runWorker({
          name: "clock_offset",
          runOnce: measure,
          every: MEASURE_EVERY,
          wakeUp: isMoved.await,
          // The time may be wrong by as much as the first measurement took.
          firstRun: first === undefined ? "after_pause" : "immediately",
          retryAfter: RETRY_AFTER
        })
      ])

      const millisUnsafe = () => {
        if (Math.abs(machineOffset() - measuredMachineOffset) > SET_MILLIS) isMoved.openUnsafe()
        return Math.floor(now() + offset)
      }
      return StoreClock.of({
        now: Effect.sync(() => DateTime.makeUnsafe(millisUnsafe())),
        millisUnsafe,
        clock,
        simulated: undefined
      })
    })
  )

  /**
   * The time of a given clock, such as a `TestClock`: moving that clock makes approvals expire and retries due. For
   * tests with one replica.
   */
  static readonly layerOf = (clock: Clock.Clock): Layer.Layer<StoreClock> =>
    Layer.succeed(StoreClock, {
      now: Effect.sync(() => DateTime.makeUnsafe(Math.floor(clock.currentTimeMillisUnsafe()))),
      millisUnsafe: () => Math.floor(clock.currentTimeMillisUnsafe()),
      clock: withoutWarnings(clock),
      simulated: () => new Date(clock.currentTimeMillisUnsafe()),
      dueWork: new DueWork(clock)
    })
}

/** Pauses of background workers are no sign of a test that forgot to move its clock, about which a `TestClock` warns. */
const withoutWarnings = (clock: Clock.Clock): Clock.Clock => ({
  currentTimeMillisUnsafe: () => clock.currentTimeMillisUnsafe(),
  currentTimeMillis: clock.currentTimeMillis,
  currentTimeNanosUnsafe: () => clock.currentTimeNanosUnsafe(),
  currentTimeNanos: clock.currentTimeNanos,
  monotonicTimeNanosUnsafe: () => clock.monotonicTimeNanosUnsafe(),
  monotonicTimeNanos: clock.monotonicTimeNanos,
  sleep: (duration) => Effect.provideService(clock.sleep(duration), References.MinimumLogLevel, "None")
})
