import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { inTurns, makeLoopTurns, nextTurn, yieldingOnly } from "../../../src/server/concurrency/LoopTurns.ts"

/** Occupies the event loop for some milliseconds. */
const work = (millis: number): void => {
  const end = performance.now() + millis
  while (performance.now() < end);
}

/** One pass of the event loop. */
const pass = Effect.callback<void>((resume) => {
  setImmediate(() => resume(Effect.void))
})

/** Turns, and a log of the slices that took them. */
const setUp = () => {
  const turns = makeLoopTurns()
  const log: Array<string> = []
  const slice = (key: string, name: string, millis = 0) =>
    Effect.tap(turns.take(key), () =>
      Effect.sync(() => {
        log.push(name)
        work(millis)
      })
    )
  return { turns, log, slice }
}

describe("LoopTurns", () => {
  it.effect("a key with many waiting slices delays another key by one of them", () =>
    Effect.gen(function* () {
      const { log, slice } = setUp()
      const many = yield* Effect.forkChild(
        Effect.forEach(["a1", "a2", "a3", "a4"], (name) => slice("a", name), { concurrency: "unbounded" })
      )
      yield* Effect.yieldNow
      yield* slice("b", "b1")
      yield* Fiber.join(many)
      assert.isAtMost(log.indexOf("b1"), 2)
      assert.deepStrictEqual(
        log.filter((name) => name !== "b1"),
        ["a1", "a2", "a3", "a4"]
      )
    })
  )

  it.effect("the event loop serves what else is ready between two slices", () =>
    Effect.gen(function* () {
      const { log, slice } = setUp()
      const slices = yield* Effect.forkChild(
        Effect.forEach(["a1", "a2", "a3"], (name) => slice("a", name), { concurrency: "unbounded" })
      )
      const other = yield* Effect.forkChild(
        Effect.forEach(["x", "y", "z"], (name) =>
          Effect.andThen(
            pass,
            Effect.sync(() => log.push(name))
          )
        )
      )
      yield* Fiber.join(slices)
      yield* Fiber.join(other)
      const places = ["a1", "a2", "a3"].map((name) => log.indexOf(name))
      assert.isAbove(places[1]! - places[0]!, 1, log.join(" "))
      assert.isAbove(places[2]! - places[1]!, 1, log.join(" "))
    })
  )

  it.effect("beside requests of another key, a key rests as long as it worked; alone it does not", () =>
    Effect.gen(function* () {
      const elapsed = Effect.fnUntraced(function* (keys: ReadonlyArray<string>) {
        const { slice, turns } = setUp()
        for (const key of keys) turns.arrive(key)
        const start = performance.now()
        for (const name of ["a1", "a2", "a3", "a4"]) yield* slice("a", name, 20)
        return performance.now() - start
      })
      // Three rests of 20 ms lie between four slices of 20 ms. Node's timers count whole milliseconds, so each may end up to one early.
      const rested = 4 * 20 + 3 * 19
      assert.isAtLeast(yield* elapsed(["b", "a"]), rested)
      const alone: Array<number> = []
      for (let trial = 0; trial < 5; trial++) alone.push(yield* elapsed(["a"]))
      assert.isBelow(Math.min(...alone), rested)
    })
  )

  it.effect("beside requests of another key, small slices wait for no timer after each", () =>
    Effect.gen(function* () {
      const elapsed = Effect.gen(function* () {
        const { slice, turns } = setUp()
        turns.arrive("b")
        turns.arrive("a")
        const start = performance.now()
        for (let count = 0; count < 200; count++) yield* slice("a", "a", 0.1)
        return performance.now() - start
      })
      const trials: Array<number> = []
      for (let trial = 0; trial < 5; trial++) trials.push(yield* elapsed)
      const fastest = Math.min(...trials)
      // 20 ms of work and as much rest. A timer after each slice would take 200 ms.
      assert.isBelow(fastest, 150)
      assert.isAbove(fastest, 2 * 20 - 5)
    })
  )

  it.effect("a key rests for charged work while another key has requests, and not alone", () =>
    Effect.gen(function* () {
      const elapsed = Effect.fnUntraced(function* (keys: ReadonlyArray<string>) {
        const { slice, turns } = setUp()
        for (const key of keys) turns.arrive(key)
        assert.strictEqual(turns.hasCompany("a"), keys.includes("b"))
        turns.charge("a", 500)
        const start = performance.now()
        yield* slice("a", "a1")
        return performance.now() - start
      })
      assert.isAtLeast(yield* elapsed(["b", "a"]), 490)
      const alone: Array<number> = []
      for (let trial = 0; trial < 5; trial++) alone.push(yield* elapsed(["a"]))
      assert.isBelow(Math.min(...alone), 490)
    })
  )

  it.effect("a slice does not wait for the rest of another key", () =>
    Effect.gen(function* () {
      const { slice, turns } = setUp()
      turns.arrive("b")
      turns.arrive("a")
      yield* slice("a", "a1", 100)
      const resting = yield* Effect.forkChild(slice("a", "a2"))
      yield* Effect.yieldNow
      yield* slice("b", "b1")
      assert.isUndefined(resting.pollUnsafe())
      yield* Fiber.interrupt(resting)
    })
  )

  it.effect("an interrupted slice leaves its place in the queue", () =>
    Effect.gen(function* () {
      const { log, slice } = setUp()
      const first = yield* Effect.forkChild(slice("a", "interrupted"))
      const second = yield* Effect.forkChild(slice("a", "next"))
      yield* Effect.yieldNow
      yield* Fiber.interrupt(first)
      yield* Fiber.join(second)
      assert.deepStrictEqual(log.slice(-1), ["next"])
    })
  )

  it.effect("nextTurn waits in a large request only, and in a transaction it takes no turn", () =>
    Effect.gen(function* () {
      const taken: Array<string> = []
      const inLargeRequest = inTurns(Effect.sync(() => void taken.push("turn")))
      yield* nextTurn
      yield* yieldingOnly(nextTurn)
      assert.deepStrictEqual(taken, [])
      yield* inLargeRequest(nextTurn)
      assert.deepStrictEqual(taken, ["turn"])
      yield* inLargeRequest(yieldingOnly(nextTurn))
      assert.deepStrictEqual(taken, ["turn"])
    })
  )
})
