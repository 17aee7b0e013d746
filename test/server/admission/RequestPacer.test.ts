import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { RequestPacer } from "../../../src/server/admission/RequestPacer.ts"
import { pass, virtualTime } from "../../support/virtualLoopTime.ts"

/**
 * A pacer on a clock that only requests and timers move, and the requests that it started. `isContended`: the event loop
 * is busy, and another client uses it too.
 */
const setUp = ({ isContended = false }: { readonly isContended?: boolean } = {}) => {
  const { elapse, pause, time, work } = virtualTime({ isBusy: isContended })
  const started: Array<string> = []
  const closed = new Set<string>()
  const refused: Array<string> = []
  const pacer = new RequestPacer(time)
  const send = (client: string, name: string, millis: number) =>
    pacer.start(client, {
      start: () => {
        started.push(name)
        work(millis)
      },
      isClosed: () => closed.has(name),
      refuse: () => void refused.push(name)
    })
  if (isContended) {
    pause(1_000)
    send("other", "other", 5)
  }
  return {
    pacer,
    started,
    closed,
    refused,
    time,
    pause,
    elapse,
    send,
    /** Runs until so many requests have started. */
    until: (count: number) =>
      elapse(
        Effect.gen(function* () {
          while (started.length < count) yield* pass
        })
      )
  }
}

const names = (client: string, count: number) =>
  Array.from({ length: count }, (_, index) => `${client}${index}`)

describe("RequestPacer", () => {
  it.effect("requests start at once as long as they take little of a pass", () =>
    Effect.sync(() => {
      const { send, started } = setUp()
      for (const name of names("a", 8)) send("a", name, 0.25)
      assert.deepStrictEqual(started, names("a", 8))
    })
  )

  it.effect("further requests of a client start in later passes, in their order", () =>
    Effect.gen(function* () {
      const { send, started } = setUp()
      for (const name of names("a", 20)) send("a", name, 0.25)
      assert.deepStrictEqual(started, names("a", 8))
      yield* pass
      assert.deepStrictEqual(started, names("a", 16))
      send("a", "late", 0.25)
      yield* pass
      assert.deepStrictEqual(started, [...names("a", 20), "late"])
    })
  )

  it.effect("a client with a thousand requests does not delay the request of another", () =>
    Effect.gen(function* () {
      const { send, started } = setUp()
      for (const name of names("a", 1_000)) send("a", name, 0.25)
      send("b", "b", 0.25)
      assert.deepStrictEqual(started, [...names("a", 8), "b"])
      yield* pass
      send("b", "again", 0.25)
      assert.strictEqual(started.at(-1), "again")
    })
  )

  it.effect("many clients share the time of a pass, and each comes to its turn", () =>
    Effect.gen(function* () {
      const { send, started } = setUp()
      const clients = names("c", 60)
      for (const client of clients) send(client, client, 0.25)
      assert.lengthOf(started, 32)
      yield* pass
      assert.sameMembers(started, clients)
    })
  )

  it.effect("under contention, a client waits three times as long as its requests took; otherwise not", () =>
    Effect.gen(function* () {
      const timed = Effect.fnUntraced(function* (isContended: boolean) {
        const { pause, send, started, time, until } = setUp({ isContended })
        if (isContended) pause(4)
        started.length = 0
        yield* pass
        const start = time.now()
        for (const name of names("a", 100)) send("a", name, 0.35)
        yield* until(100)
        return time.now() - start
      })
      assert.approximately(yield* timed(false), 100 * 0.35, 0.001)
      // A request counts half a millisecond: 0.35, and what Node.js does for it. A debt of at most 10 ms remains at the end.
      const throttled = yield* timed(true)
      assert.isAbove(throttled, 100 * (0.5 + 3 * 0.5) - 12)
      assert.isBelow(throttled, 100 * (0.5 + 3 * 0.5) + 1)
    })
  )

  it.effect("one request per second of another client throttles nobody", () =>
    Effect.gen(function* () {
      const { send, started, time, until } = setUp()
      for (let second = 0; second < 3; second++) {
        send("probe", "probe", 0.2)
        for (const name of names("a", 2_000)) send("a", name, 0.2)
        yield* until(2_001 * (second + 1))
      }
      assert.lengthOf(started, 6_003)
      assert.approximately(time.now(), 6_003 * 0.2, 0.001)
    })
  )

  it.effect("an idle event loop throttles nobody, however many clients use it", () =>
    Effect.gen(function* () {
      const { pause, send, started, time } = setUp()
      for (let count = 1; count <= 200; count++) {
        for (const client of ["a", "b"]) send(client, client, 1)
        assert.lengthOf(started, 2 * count)
        pause(10)
        yield* pass
      }
      assert.approximately(time.now(), 200 * 12, 0.001)
    })
  )

  it.effect("a long pause of the process is not charged to the client whose request it interrupts", () =>
    Effect.gen(function* () {
      const { send, started, time, until } = setUp({ isContended: true })
      yield* pass
      started.length = 0
      send("a", "interrupted", 100)
      const start = time.now()
      send("a", "next", 0.2)
      yield* until(2)
      assert.isAtMost(time.now() - start, 3 * 5 + 1)
    })
  )

  it.effect("a client that is throttled does not delay another one", () =>
    Effect.gen(function* () {
      const { send, started, time } = setUp({ isContended: true })
      for (const name of names("a", 1_000)) send("a", name, 1.9)
      for (let count = 0; count < 50; count++) yield* pass
      const before = [time.now(), started.length]
      send("b", "again", 0.25)
      assert.strictEqual(started.at(-1), "again")
      assert.deepStrictEqual([time.now() - 0.25, started.length - 1], before)
    })
  )

  it.effect("requests of closed connections leave the queue, and cost nothing", () =>
    Effect.gen(function* () {
      const { closed, pacer, send, started, time, until } = setUp({ isContended: true })
      yield* pass
      started.length = 0
      const cancels = names("a", 1_000).map((name) => send("a", name, 0.25))
      const waiting = cancels.flatMap((cancel) => (cancel === undefined ? [] : [cancel]))
      const first = started.length
      assert.strictEqual(pacer.waiting, 1_000 - first)
      // Half of them are noticed only when they would start.
      for (const cancel of waiting.slice(0, 500)) cancel()
      assert.strictEqual(pacer.waiting, 500 - first)
      for (const name of names("a", 1_000).slice(first)) closed.add(name)
      const start = time.now()
      send("a", "open", 0.25)
      yield* until(first + 1)
      assert.strictEqual(started.at(-1), "open")
      // The debt of the first ones.
      assert.isAtMost(time.now() - start, 10)
      assert.strictEqual(pacer.waiting, 0)
    })
  )

  it.effect("requests beyond 5,000 that wait are refused, of this client only", () =>
    Effect.gen(function* () {
      const { pacer, refused, send, started } = setUp()
      for (const name of names("a", 5_008)) send("a", name, 0.25)
      assert.deepStrictEqual([pacer.waiting, refused.length], [5_000, 0])
      send("a", "one more", 0.25)
      send("b", "b", 0.25)
      assert.deepStrictEqual(refused, ["one more"])
      assert.strictEqual(started.at(-1), "b")
      yield* pass
    })
  )

  it.effect("a request that throws does not keep the others from starting", () =>
    Effect.gen(function* () {
      const { pacer, send, started } = setUp()
      const request = { isClosed: () => false, refuse: () => undefined }
      assert.throws(() =>
        pacer.start("a", {
          ...request,
          start: () => {
            throw new Error("broken")
          }
        })
      )
      pacer.start("a", { ...request, start: () => void started.push("next") })
      send("a", "other", 1)
      yield* pass
      assert.deepStrictEqual(started, ["next", "other"])
    })
  )
})
