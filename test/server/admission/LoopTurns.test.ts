import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import {
  inOrder,
  inTurns,
  makeLoopTurns,
  nextTurn,
  yieldingOnly
} from "../../../src/server/admission/LoopTurns.ts"
import { pass, virtualTime } from "../../support/virtualLoopTime.ts"

/** Turns, and a log of the slices that took them. `isContended`: the event loop is busy, and the key `other` uses it too. */
const setUp = ({ isContended = false }: { readonly isContended?: boolean } = {}) => {
  const { elapse, pause, time, timersStarted, work } = virtualTime({ isBusy: isContended })
  const turns = makeLoopTurns(time)
  if (isContended) {
    pause(1_000)
    turns.charge("other", 1_000)
  }
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
  return { turns, log, slice, timed, timersStarted, time }
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
    "under contention, a key waits three times as long as it worked; otherwise it does not wait",
    () =>
      Effect.gen(function* () {
        const elapsed = (isContended: boolean) => {
          const { slice, timed } = setUp({ isContended })
          return timed(Effect.forEach(["a1", "a2", "a3", "a4"], (name) => slice("a", name, 20)))
        }
        // Three waits of 60 ms lie between four slices of 20 ms; at most 2 ms of debt remain.
        const throttled = yield* elapsed(true)
        assert.isAtLeast(throttled, 4 * 20 + 3 * 57)
        assert.isAtMost(throttled, 4 * 20 + 3 * 60)
        assert.strictEqual(yield* elapsed(false), 4 * 20)
      })
  )

  it.effect(
    "beside another key, a key gets part of the event loop, and beside one that only probes all of it",
    () =>
      Effect.gen(function* () {
        /** The part of the time that a key uses, beside 150 requests of another one at intervals of 20 ms. */
        const shareBeside = Effect.fnUntraced(function* (millis: number) {
          const { slice, time, timed } = setUp()
          const interval = Effect.callback<void>((resume) => void time.after(20, () => resume(Effect.void)))
          let used = 0
          const greedy = Effect.forever(Effect.tap(slice("a", "a", 2), () => Effect.sync(() => (used += 2))))
          const all = yield* Effect.forkChild(
            Effect.replicateEffect(greedy, 8, { concurrency: "unbounded", discard: true })
          )
          const elapsed = yield* timed(
            Effect.replicateEffect(Effect.andThen(slice("b", "b", millis), interval), 150, { discard: true })
          )
          yield* Fiber.interrupt(all)
          return used / elapsed
        })
        const share = yield* shareBeside(1)
        assert.isAtLeast(share, 0.25)
        assert.isAtMost(share, 0.35)
        assert.isAtLeast(yield* shareBeside(0.03), 0.99)
      })
  )

  it.effect("under contention, small slices wait for no timer after each", () =>
    Effect.gen(function* () {
      const { slice, timed, timersStarted } = setUp({ isContended: true })
      const elapsed = yield* timed(Effect.replicateEffect(slice("a", "a", 0.1), 200, { discard: true }))
      // 20 ms of work and three times as much debt, at most 2 ms of which remain. A timer after each slice would take 200 ms.
      assert.isBelow(elapsed, 4 * 20 + 5)
      assert.isAbove(elapsed, 4 * 20 - 5)
      assert.isAtMost(timersStarted(), 60)
    })
  )

  it.effect("under contention, a key waits for charged work; otherwise it does not", () =>
    Effect.gen(function* () {
      const elapsed = (isContended: boolean) => {
        const { slice, timed, turns } = setUp({ isContended })
        assert.strictEqual(turns.hasCompany("a"), isContended)
        assert.strictEqual(turns.isContended("a"), isContended)
        turns.charge("a", 500)
        return timed(slice("a", "a1"))
      }
      assert.isAtLeast(yield* elapsed(true), 490)
      assert.strictEqual(yield* elapsed(false), 0)
    })
  )

  it.effect("a long pause of the process is not charged to the key whose slice it interrupts", () =>
    Effect.gen(function* () {
      const { slice, timed } = setUp({ isContended: true })
      const elapsed = yield* timed(Effect.andThen(slice("a", "interrupted", 1_000), slice("a", "next")))
      assert.isAtMost(elapsed, 1_000 + 3 * 50)
    })
  )

  it.effect("a slice does not wait for the debt of another key", () =>
    Effect.gen(function* () {
      const { log, slice, time } = setUp({ isContended: true })
      yield* slice("a", "a1", 50)
      const waiting = yield* Effect.forkChild(slice("a", "a2"))
      yield* Effect.yieldNow
      const start = time.now()
      yield* slice("b", "b1")
      assert.deepStrictEqual(log, ["a1", "b1"])
      assert.strictEqual(time.now(), start)
      yield* Fiber.interrupt(waiting)
    })
  )

  it.effect("a slice that waited too long gets no turn, and the next one does", () =>
    Effect.gen(function* () {
      const { log, slice, timed, turns } = setUp({ isContended: true })
      const all = Effect.all(
        [slice("a", "a1", 50), turns.takeWithin("a", 100), turns.takeWithin("a", 1_000)],
        { concurrency: "unbounded" }
      )
      let results: ReadonlyArray<unknown> = []
      const elapsed = yield* timed(Effect.map(all, (ended) => void (results = ended)))
      assert.deepStrictEqual(results.slice(1), [false, true])
      assert.deepStrictEqual(log, ["a1"])
      assert.isAtLeast(elapsed, 50 + 148)
      assert.isAtMost(elapsed, 50 + 150)
    })
  )

  it.effect("a slice behind one without a limit is refused at the end of its own limit", () =>
    Effect.gen(function* () {
      const { slice, timed, turns } = setUp({ isContended: true })
      turns.charge("a", 500)
      const unlimited = yield* Effect.forkChild(slice("a", "unlimited"))
      yield* Effect.yieldNow
      assert.strictEqual(yield* timed(turns.takeWithin("a", 200)), 200)
      assert.isUndefined(unlimited.pollUnsafe())
      yield* Fiber.interrupt(unlimited)
    })
  )

  it.effect("a large request finishes before small requests of its key that start later", () =>
    Effect.gen(function* () {
      const { log, slice, timed } = setUp()
      const large = inTurns(slice("a", "large", 3))(Effect.replicateEffect(nextTurn, 30, { discard: true }))
      const small = Effect.forever(slice("a", "small", 0.5))
      const smalls = yield* Effect.forkChild(
        Effect.replicateEffect(small, 100, { concurrency: "unbounded", discard: true })
      )
      yield* Effect.yieldNow
      const elapsed = yield* timed(large)
      yield* Fiber.interrupt(smalls)
      // The hundred that waited before come first.
      assert.isAtMost(elapsed, 100 * 0.5 + 30 * 3 + 1)
      assert.isAtMost(log.lastIndexOf("large") - log.indexOf("large"), 30)
    })
  )

  it.effect("large requests of a key finish one after the other, the oldest first", () =>
    Effect.gen(function* () {
      const { log, slice, timed } = setUp()
      const large = (name: string) =>
        inTurns(slice("a", name, 3))(Effect.replicateEffect(nextTurn, 4, { discard: true }))
      yield* timed(Effect.forEach(["a1", "a2", "a3"], large, { concurrency: "unbounded" }))
      assert.deepStrictEqual(
        log,
        ["a1", "a2", "a3"].flatMap((name) => Array.from({ length: 4 }, () => name))
      )
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

  it.effect("the slices of a request have the place of its first one, also outside of nextTurn", () =>
    Effect.gen(function* () {
      const { log, slice, timed } = setUp()
      const request = (name: string) =>
        inOrder(Effect.andThen(slice("a", `${name}, first`), slice("a", `${name}, second`)))
      yield* timed(Effect.forEach(["a1", "a2"], request, { concurrency: "unbounded" }))
      assert.deepStrictEqual(log, ["a1, first", "a1, second", "a2, first", "a2, second"])
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
