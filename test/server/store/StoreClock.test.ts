import { assert, describe, layer } from "@effect/vitest"
import { Clock, Context, Deferred, Effect, Layer, type Scope } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { processClock } from "../../../src/server/concurrency/processClock.ts"
import { StoreClock } from "../../../src/server/store/StoreClock.ts"
import { eventually } from "../../support/eventually.ts"
import { machineClock } from "../../support/machineClock.ts"
import { TestDatabase } from "../../support/postgres.ts"

const HOUR = 3_600_000

/** The service's time agrees with the database's within this many milliseconds on a busy machine. */
const TOLERANCE = 1_000

/** The service's time on a machine with these clocks. */
const startStoreClock = (
  clock: Clock.Clock
): Effect.Effect<StoreClock["Service"], never, SqlClient.SqlClient | Scope.Scope> =>
  Effect.map(
    Effect.orDie(Effect.provideService(Layer.build(Layer.fresh(StoreClock.layer)), Clock.Clock, clock)),
    (context) => Context.get(context, StoreClock)
  )

/** The current client, which runs an effect between each response and its use. */
const afterEachResponse = (effect: Effect.Effect<unknown>) =>
  Effect.map(
    SqlClient.SqlClient,
    (sql) =>
      new Proxy(sql, {
        apply: (target, self, args): unknown => {
          const statement: Effect.Effect<unknown, SqlError.SqlError> = Reflect.apply(target, self, args)
          return Effect.tap(statement, effect)
        }
      })
  )

const differenceFromNow = (storeClock: StoreClock["Service"]) =>
  Math.abs(storeClock.millisUnsafe() - processClock.currentTimeMillisUnsafe())

layer(TestDatabase.layerSql, { excludeTestServices: true })("StoreClock", (it) => {
  describe("the service's time is the database's", () => {
    it.effect("on a machine whose clock is wrong from the start", () =>
      Effect.gen(function* () {
        for (const ofDay of [HOUR, -HOUR]) {
          const { ahead, clock } = machineClock()
          ahead.ofDay = ofDay
          assert.isBelow(differenceFromNow(yield* startStoreClock(clock)), TOLERANCE)
        }
      })
    )

    it.effect("soon after a start during which the database was slow", () =>
      Effect.gen(function* () {
        const { ahead, clock } = machineClock()
        // The response to the first measurement takes two seconds of the process's time.
        let responses = 0
        const slow = yield* afterEachResponse(
          Effect.sync(() => {
            if (responses++ > 0) return
            ahead.ofDay += 2_000
            ahead.monotonic += 2_000
          })
        )
        const storeClock = yield* Effect.provideService(startStoreClock(clock), SqlClient.SqlClient, slow)
        // Long before the next regular measurement.
        yield* Effect.timeout(
          eventually(
            Effect.sync(() => differenceFromNow(storeClock)),
            (difference) => difference < TOLERANCE
          ),
          "15 seconds"
        )
      })
    )

    it.effect("while the machine's clock is set ahead or back", () =>
      Effect.gen(function* () {
        const { ahead, clock } = machineClock()
        const storeClock = yield* startStoreClock(clock)
        for (const ofDay of [HOUR, -HOUR, 40 * 24 * HOUR]) {
          ahead.ofDay = ofDay
          assert.isBelow(differenceFromNow(storeClock), TOLERANCE)
        }
      })
    )

    it.effect("soon after the machine was suspended, in which its monotonic clock stood still", () =>
      Effect.gen(function* () {
        const { ahead, clock } = machineClock()
        const storeClock = yield* startStoreClock(clock)
        ahead.monotonic = -HOUR
        yield* eventually(
          Effect.sync(() => differenceFromNow(storeClock)),
          (difference) => difference < TOLERANCE
        )
      })
    )

    it.effect("after the process was stopped for ten seconds while it measured", () =>
      Effect.gen(function* () {
        const { ahead, clock } = machineClock()
        const measured = yield* Deferred.make<void>()
        let stopMillis = 0
        const stop = Effect.suspend(() => {
          ahead.monotonic += stopMillis
          ahead.ofDay += stopMillis
          return stopMillis === 0 ? Effect.void : Deferred.succeed(measured, undefined)
        })
        const sql = yield* afterEachResponse(stop)
        const storeClock = yield* Effect.provideService(startStoreClock(clock), SqlClient.SqlClient, sql)
        // The two clocks have drifted apart a little, so that the next measurement changes the offset.
        ahead.monotonic += 5
        ahead.ofDay += HOUR
        stopMillis = 10_000
        storeClock.millisUnsafe()
        yield* Deferred.await(measured)
        yield* Effect.yieldNow
        const expected = processClock.currentTimeMillisUnsafe() + stopMillis
        assert.isBelow(Math.abs(storeClock.millisUnsafe() - expected), TOLERANCE)
      })
    )

    it.effect("soon after the machine was suspended, although each response takes half a second", () =>
      Effect.gen(function* () {
        const { ahead, clock } = machineClock()
        let waitedMillis = 0
        let waitMillis = 0
        const wait = Effect.sync(() => {
          waitedMillis += waitMillis
          ahead.monotonic += waitMillis
          ahead.ofDay += waitMillis
        })
        const sql = yield* afterEachResponse(wait)
        const storeClock = yield* Effect.provideService(startStoreClock(clock), SqlClient.SqlClient, sql)
        ahead.monotonic = -HOUR
        waitMillis = 500
        yield* eventually(
          Effect.sync(
            () => storeClock.millisUnsafe() - (processClock.currentTimeMillisUnsafe() + waitedMillis)
          ),
          (difference) => Math.abs(difference) < TOLERANCE
        )
      })
    )
  })
})
