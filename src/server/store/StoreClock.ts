import { Clock, Context, DateTime, Duration, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import type { Timestamp } from "../../domain/Time.ts"
import { runWorker, startWorkers } from "../concurrency/Worker.ts"

/** Interval between measurements of the offset to the database's clock. */
const MEASURE_EVERY = Duration.seconds(30)

/** A measurement with a longer round trip is discarded, in milliseconds. */
const SLOW_MILLIS = 250

/**
 * The database's time, for deadlines, due times and records, so that replicas with different clocks agree. It is the local clock plus a
 * measured offset, so reading it costs no statement.
 */
export class StoreClock extends Context.Service<
  StoreClock,
  {
    /** The current time of the database's clock, in whole milliseconds. */
    readonly now: Effect.Effect<Timestamp>
    /** The same in milliseconds since the Unix epoch, from a given local clock, for code that runs with every request. */
    readonly millisUnsafe: (clock: Clock.Clock) => number
  }
>()("countersign/server/store/StoreClock") {
  static readonly layer = Layer.effect(
    StoreClock,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      let offset = 0
      let isMeasured = false

      const measure = Effect.gen(function* () {
        const clock = yield* Clock.Clock
        const before = clock.currentTimeMillisUnsafe()
        const [row] = yield* sql<{ readonly now: Date }>`SELECT clock_timestamp() AS now`
        const after = clock.currentTimeMillisUnsafe()
        // Assume that the database took the timestamp in the middle of the round trip, as NTP does. A smaller offset than half the round trip
        // cannot be distinguished from none.
        const roundTrip = after - before
        // The earlier measurement is more accurate than a slow one.
        if (row === undefined || (isMeasured && roundTrip > SLOW_MILLIS)) return
        const measured = row.now.getTime() - (before + after) / 2
        if (Math.abs(measured - offset) > roundTrip / 2 + 1) offset = Math.round(measured)
        isMeasured = true
      })

      yield* measure
      yield* startWorkers([
        runWorker({
          name: "clock_offset",
          runOnce: measure,
          every: MEASURE_EVERY,
          firstRun: "after_pause",
          retryAfter: MEASURE_EVERY
        })
      ])

      const millisUnsafe = (clock: Clock.Clock) => clock.currentTimeMillisUnsafe() + offset
      return StoreClock.of({
        now: Effect.clockWith((clock) => Effect.sync(() => DateTime.makeUnsafe(millisUnsafe(clock)))),
        millisUnsafe
      })
    })
  )

  /** The local clock without an offset, for tests with a `TestClock`. */
  static readonly layerLocal = Layer.succeed(
    StoreClock,
    StoreClock.of({ now: DateTime.now, millisUnsafe: (clock) => clock.currentTimeMillisUnsafe() })
  )
}
