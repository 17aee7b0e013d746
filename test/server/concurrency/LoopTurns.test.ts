import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { inTurns, makeLoopTurns, nextTurn, yieldingOnly } from "../../../src/server/concurrency/LoopTurns.ts"
import { pass, virtualTime } from "../../support/virtualLoopTime.ts"

/** Turns, and a log of the slices that took them. */
const setUp = () => {
  const { elapse, time, timersStarted, work } = virtualTime()
  const turns = makeLoopTurns(time)
  const log: Array<string> = []
  const slice = (key: string, name: string, millis = 0) =>
    Effect.tap(turns.take(key), () =>
      Effect.sync(() => {
        log.push(name)
        work(millis)
      })
    )
  /** The milliseconds that an effect takes. */
  const timed = <A, E>(effect: Effect.Effect<A, E>) =>
    Effect.suspend(() => {
      const start = time.now()
      return Effect.map(elapse(effect), () => time.now() - start)
    })
  return { turns, log, slice, timed, timersStarted }
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

  it.effect(
    "beside requests of another key, a key rests three times as long as it worked; alone it does not",
    () =>
      Effect.gen(function* () {
        const elapsed = (keys: ReadonlyArray<string>) => {
          const { slice, timed, turns } = setUp()
          for (const key of keys) turns.arrive(key)
          return timed(Effect.forEach(["a1", "a2", "a3", "a4"], (name) => slice("a", name, 20)))
        }
        // Three rests of 60 ms lie between four slices of 20 ms; at most 2 ms of each are owed.
        const rested = yield* elapsed(["b", "a"])
        assert.isAtLeast(rested, 4 * 20 + 3 * 57)
        assert.isAtMost(rested, 4 * 20 + 3 * 60)
        assert.strictEqual(yield* elapsed(["a"]), 4 * 20)
      })
  )

  it.effect("beside requests of another key, small slices wait for no timer after each", () =>
    Effect.gen(function* () {
      const { slice, timed, timersStarted, turns } = setUp()
      turns.arrive("b")
      turns.arrive("a")
      const elapsed = yield* timed(Effect.replicateEffect(slice("a", "a", 0.1), 200, { discard: true }))
      // 20 ms of work and three times as much rest, at most 2 ms of which is owed. A timer after each slice would take 200 ms.
      assert.isBelow(elapsed, 4 * 20 + 5)
      assert.isAbove(elapsed, 4 * 20 - 5)
      assert.isAtMost(timersStarted(), 60)
    })
  )

  it.effect("a key rests for charged work while another key has requests, and not alone", () =>
    Effect.gen(function* () {
      const elapsed = (keys: ReadonlyArray<string>) => {
        const { slice, timed, turns } = setUp()
        for (const key of keys) turns.arrive(key)
        assert.strictEqual(turns.hasCompany("a"), keys.includes("b"))
        turns.charge("a", 500)
        return timed(slice("a", "a1"))
      }
      assert.isAtLeast(yield* elapsed(["b", "a"]), 490)
      assert.strictEqual(yield* elapsed(["a"]), 0)
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

  it.effect("a slice that waited too long gets no turn, and the next one does", () =>
    Effect.gen(function* () {
      const { log, slice, timed, turns } = setUp()
      turns.arrive("b")
      turns.arrive("a")
      const all = Effect.all(
        [slice("a", "a1", 100), turns.takeWithin("a", 200), turns.takeWithin("a", 1_000)],
        { concurrency: "unbounded" }
      )
      let results: ReadonlyArray<unknown> = []
      const elapsed = yield* timed(Effect.map(all, (ended) => void (results = ended)))
      assert.deepStrictEqual(results.slice(1), [false, true])
      assert.deepStrictEqual(log, ["a1"])
      assert.isAtLeast(elapsed, 100 + 298)
      assert.isAtMost(elapsed, 100 + 300)
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
