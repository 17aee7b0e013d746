import { Clock, Context, DateTime, Duration, Effect, Layer, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import type { Timestamp } from "../../domain/Time.ts"

/** How often the difference to the store's clock is measured again. */
const MEASURE_EVERY = Duration.seconds(30)

/** A reading whose round trip took longer than this changes nothing. */
const SLOW_MILLIS = 250

/**
 * The time that deadlines, due times and records go by: the store's, so that replicas whose clocks differ agree. It is this
 * machine's clock with a measured difference added; asking it costs no statement.
 */
export class StoreClock extends Context.Service<
  StoreClock,
  {
    /** Now, by the store's clock, to the millisecond. */
    readonly now: Effect.Effect<Timestamp>
    /** The same in milliseconds since the epoch, of a clock that is at hand: for what is done with every request. */
    readonly millisUnsafe: (clock: Clock.Clock) => number
  }
>()("countersign/server/store/StoreClock") {
  static readonly layer = Layer.effect(
    StoreClock,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      let difference = 0
      let known = false

      const measure = Effect.gen(function* () {
        const clock = yield* Clock.Clock
        const before = clock.currentTimeMillisUnsafe()
        const [row] = yield* sql<{ readonly now: Date }>`SELECT clock_timestamp() AS now`
        const after = clock.currentTimeMillisUnsafe()
        // The answer was true somewhere between asking and reading; within the round trip no difference is seen.
        const roundTrip = after - before
        // A slow answer tells little: what is known already is better.
        if (row === undefined || (known && roundTrip > SLOW_MILLIS)) return
        const measured = row.now.getTime() - (before + after) / 2
        if (Math.abs(measured - difference) > roundTrip / 2 + 1) difference = Math.round(measured)
        known = true
      })

      yield* measure
      yield* Effect.forkScoped(
        measure.pipe(
          Effect.catchCause((cause) => Effect.logDebug("The store's clock could not be read", cause)),
          Effect.schedule(Schedule.spaced(MEASURE_EVERY))
        )
      )

      const millisUnsafe = (clock: Clock.Clock) => clock.currentTimeMillisUnsafe() + difference
      return StoreClock.of({
        now: Effect.clockWith((clock) => Effect.sync(() => DateTime.makeUnsafe(millisUnsafe(clock)))),
        millisUnsafe
      })
    })
  )

  /** Effect's clock as it is: for tests that move it. */
  static readonly layerLocal = Layer.succeed(
    StoreClock,
    StoreClock.of({ now: DateTime.now, millisUnsafe: (clock) => clock.currentTimeMillisUnsafe() })
  )
}
