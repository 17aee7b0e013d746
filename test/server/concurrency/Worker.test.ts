import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Exit, Fiber, Latch, Metric, Queue, Scope } from "effect"
import { TestClock } from "effect/testing"
import {
  onShutdown,
  RETRY_MILLIS,
  runWorker,
  startWorkers,
  type Worker,
  type WorkerRun
} from "../../../src/server/concurrency/Worker.ts"
import { workerFailures, workerLastSuccess } from "../../../src/server/observability/metricDefinitions.ts"

/** A started worker whose runs are counted; its first runs have `outcomes`, later ones succeed. */
const start = Effect.fnUntraced(function* (
  options: Partial<Worker<unknown, never>>,
  outcomes: ReadonlyArray<Effect.Effect<WorkerRun | void, unknown>> = []
) {
  const scope = yield* Scope.make()
  const runs = { count: 0 }
  const runOnce = Effect.suspend(() => outcomes[runs.count++] ?? Effect.void)
  yield* startWorkers([runWorker({ name: "test_worker", runOnce, ...options })]).pipe(Scope.provide(scope))
  // The worker's fibers reach their first pause before the clock moves.
  for (let tick = 0; tick < 10; tick++) yield* Effect.yieldNow
  return { runs, scope }
})

describe("Worker", () => {
  it.effect("a worker runs immediately, then after each pause of `every`, and ends with its scope", () =>
    Effect.gen(function* () {
      const { runs, scope } = yield* start({ every: "10 seconds" })
      assert.strictEqual(runs.count, 1)
      yield* TestClock.adjust("9999 millis")
      assert.strictEqual(runs.count, 1)
      yield* TestClock.adjust("1 millis")
      assert.strictEqual(runs.count, 2)
      yield* Scope.close(scope, Exit.void)
      yield* TestClock.adjust("1 hour")
      assert.strictEqual(runs.count, 2)
    })
  )

  it.effect("a worker with `firstRun: after_pause` pauses before its first run", () =>
    Effect.gen(function* () {
      const { runs } = yield* start({ every: "10 seconds", firstRun: "after_pause" })
      assert.strictEqual(runs.count, 0)
      yield* TestClock.adjust("10 seconds")
      assert.strictEqual(runs.count, 1)
    })
  )

  it.effect("a run that returns `next` sets the pause before the following run", () =>
    Effect.gen(function* () {
      const { runs } = yield* start({ every: "1 hour" }, [Effect.succeed({ next: "1 second" })])
      yield* TestClock.adjust("1 second")
      assert.strictEqual(runs.count, 2)
      yield* TestClock.adjust("59 minutes")
      assert.strictEqual(runs.count, 2)
    })
  )

  it.effect("a wake-up ends the pause early, and is the only trigger of a worker without `every`", () =>
    Effect.gen(function* () {
      for (const every of ["1 hour", undefined] as const) {
        const due = yield* Latch.make(false)
        const first = every === undefined ? 0 : 1
        const { runs } = yield* start({
          ...(every === undefined ? {} : { every }),
          wakeUp: Effect.andThen(due.await, due.close)
        })
        assert.strictEqual(runs.count, first)
        yield* due.open
        yield* TestClock.adjust(0)
        assert.strictEqual(runs.count, first + 1)
        yield* TestClock.adjust("30 minutes")
        assert.strictEqual(runs.count, first + 1)
      }
    })
  )

  it.effect(
    "a run that fails or dies is counted and retried after a pause that a wake-up does not shorten",
    () =>
      Effect.gen(function* () {
        const before = yield* Metric.value(workerFailures("test_worker"))
        let hooks = 0
        const { runs } = yield* start(
          {
            every: "1 hour",
            wakeUp: Effect.sleep(1),
            onFailure: () => Effect.sync(() => void hooks++)
          },
          [Effect.fail("the database is unavailable"), Effect.die(new Error("a defect")), Effect.never]
        )
        yield* TestClock.adjust(RETRY_MILLIS - 1)
        assert.strictEqual(runs.count, 1)
        yield* TestClock.adjust(1)
        assert.strictEqual(runs.count, 2)
        yield* TestClock.adjust(RETRY_MILLIS)
        assert.strictEqual(runs.count, 3)
        assert.strictEqual(hooks, 2)
        const after = yield* Metric.value(workerFailures("test_worker"))
        assert.strictEqual(after.count - before.count, 2)
      })
  )

  it.effect(
    "a defect of the wake-up is counted and retried like one of a run, and ends no other worker",
    () =>
      Effect.gen(function* () {
        for (const firstRun of ["immediately", "after_pause"] as const) {
          const scope = yield* Scope.make()
          const runs = { faulty: 0, other: 0 }
          let wakeUps = 0
          yield* startWorkers([
            runWorker({
              name: "faulty_wake_up",
              runOnce: Effect.sync(() => void runs.faulty++),
              every: "10 seconds",
              wakeUp: Effect.suspend(() =>
                wakeUps++ === 0 ? Effect.die(new Error("a defect")) : Effect.never
              ),
              firstRun
            }),
            runWorker({
              name: "other",
              runOnce: Effect.sync(() => void runs.other++),
              every: "10 seconds"
            })
          ]).pipe(Scope.provide(scope))
          for (let tick = 0; tick < 10; tick++) yield* Effect.yieldNow
          const before = { ...runs }
          yield* TestClock.adjust(RETRY_MILLIS)
          assert.strictEqual(runs.faulty, before.faulty + 1)
          yield* TestClock.adjust("10 seconds")
          assert.deepStrictEqual(runs, { faulty: before.faulty + 2, other: before.other + 1 })
          yield* Scope.close(scope, Exit.void)
        }
      })
  )

  it.effect("a run that returns a `next` of zero is followed immediately, and consumes no wake-up", () =>
    Effect.gen(function* () {
      const signals = yield* Queue.unbounded<void>()
      yield* Queue.offer(signals, undefined)
      const { runs } = yield* start({ every: "1 hour", wakeUp: Queue.take(signals) }, [
        Effect.succeed({ next: 0 })
      ])
      yield* TestClock.adjust(0)
      // The second run is the continuation; the signal causes the third.
      assert.strictEqual(runs.count, 3)
    })
  )

  it.effect("a completed run sets the time of the last success", () =>
    Effect.gen(function* () {
      yield* start({ name: "timed_worker", every: "10 seconds" })
      yield* TestClock.adjust("25 seconds")
      assert.strictEqual((yield* Metric.value(workerLastSuccess("timed_worker"))).value, 20)
    })
  )

  it.effect("a shutdown hook runs to its end although the fiber that closes the scope is interrupted", () =>
    Effect.gen(function* () {
      const begun = yield* Deferred.make<void>()
      const done = yield* Deferred.make<void>()
      const last = Deferred.succeed(begun, undefined).pipe(
        Effect.andThen(Effect.sleep("1 second")),
        Effect.andThen(Deferred.succeed(done, undefined)),
        Effect.asVoid
      )
      const user = yield* Effect.forkChild(Effect.scoped(Effect.andThen(onShutdown(last), Effect.never)), {
        startImmediately: true
      })
      const interrupting = yield* Effect.forkChild(Fiber.interrupt(user), { startImmediately: true })
      yield* Deferred.await(begun)
      yield* TestClock.adjust("1 second")
      yield* Fiber.join(interrupting)
      assert.isTrue(yield* Deferred.isDone(done))
    })
  )
})
