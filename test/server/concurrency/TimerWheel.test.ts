import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { TestClock } from "effect/testing"
import { makeTimerWheel } from "../../../src/server/concurrency/TimerWheel.ts"

describe("TimerWheel", () => {
  it.effect("callbacks fire at the end of their tick, whatever the order in which they were scheduled", () =>
    Effect.gen(function* () {
      const { schedule } = yield* makeTimerWheel
      const fired: Array<string> = []
      schedule(1_000, () => fired.push("later"))
      schedule(100, () => fired.push("sooner"))
      schedule(90, () => fired.push("same tick"))
      yield* TestClock.adjust(99)
      assert.deepStrictEqual(fired, [])
      yield* TestClock.adjust(1)
      assert.deepStrictEqual(fired, ["sooner", "same tick"])
      yield* TestClock.adjust(900)
      assert.deepStrictEqual(fired, ["sooner", "same tick", "later"])
    }).pipe(Effect.scoped)
  )

  it.effect("a cancelled callback does not fire, also if an earlier callback of its tick cancels it", () =>
    Effect.gen(function* () {
      const { schedule } = yield* makeTimerWheel
      const fired: Array<string> = []
      schedule(50, () => fired.push("cancelled"))()
      let cancel = () => {}
      schedule(100, () => {
        fired.push("first")
        cancel()
      })
      cancel = schedule(100, () => fired.push("second"))
      schedule(100, () => fired.push("third"))
      yield* TestClock.adjust(100)
      assert.deepStrictEqual(fired, ["first", "third"])
    }).pipe(Effect.scoped)
  )

  it.effect("a callback may schedule another, before or after the next tick that has callbacks", () =>
    Effect.gen(function* () {
      const { schedule } = yield* makeTimerWheel
      const fired: Array<string> = []
      schedule(25, () => {
        schedule(25, () => fired.push("soon"))
        schedule(100, () => fired.push("late"))
      })
      schedule(75, () => fired.push("between"))
      yield* TestClock.adjust(50)
      assert.deepStrictEqual(fired, ["soon"])
      yield* TestClock.adjust(100)
      assert.deepStrictEqual(fired, ["soon", "between", "late"])
    }).pipe(Effect.scoped)
  )

  it.effect(
    "work that ends in time leaves one sleeping fiber, which is not woken for each of its ticks",
    () =>
      Effect.gen(function* () {
        const { schedule } = yield* makeTimerWheel
        let sleeps = 0
        const clock = yield* TestClock.testClockWith(Effect.succeed)
        const sleep = clock.sleep.bind(clock)
        Object.assign(clock, {
          sleep: (...args: Parameters<typeof sleep>) => {
            sleeps++
            return sleep(...args)
          }
        })
        for (let count = 0; count < 100; count++) {
          schedule(5_000, () => assert.fail("it was cancelled"))()
          yield* TestClock.adjust(25)
        }
        yield* TestClock.adjust("10 seconds")
        assert.strictEqual(sleeps, 1)
      }).pipe(Effect.scoped)
  )
})
