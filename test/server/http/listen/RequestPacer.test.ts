import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { RequestPacer } from "../../../../src/server/http/listen/RequestPacer.ts"
import { pass, virtualTime } from "../../../support/virtualLoopTime.ts"

/** A pacer on a clock that only requests and timers move, and the requests that it started. */
const setUp = () => {
  const { elapse, time, work } = virtualTime()
  const started: Array<string> = []
  const pacer = new RequestPacer(time)
  return {
    started,
    time,
    elapse,
    send: (client: string, name: string, millis: number) =>
      pacer.start(client, () => {
        started.push(name)
        work(millis)
      })
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

  it.effect(
    "beside another client, a client rests three times as long as its requests took; alone it does not",
    () =>
      Effect.gen(function* () {
        const timed = Effect.fnUntraced(function* (hasCompany: boolean) {
          const { elapse, send, started, time } = setUp()
          if (hasCompany) send("b", "b", 0)
          for (const name of names("a", 100)) send("a", name, 0.35)
          yield* elapse(
            Effect.gen(function* () {
              while (started.at(-1) !== "a99") yield* pass
            })
          )
          assert.lengthOf(started, hasCompany ? 101 : 100)
          return time.now()
        })
        assert.approximately(yield* timed(false), 100 * 0.35, 0.001)
        // A request counts half a millisecond: 0.35, and what Node.js does for it. A rest of at most 10 ms is owed at the end.
        const rested = yield* timed(true)
        assert.isAbove(rested, 100 * (0.5 + 3 * 0.5) - 12)
        assert.isBelow(rested, 100 * (0.5 + 3 * 0.5) + 1)
      })
  )

  it.effect("a client that rests does not delay another one", () =>
    Effect.gen(function* () {
      const { send, started, time } = setUp()
      send("b", "b", 0)
      for (const name of names("a", 1_000)) send("a", name, 1.9)
      for (let count = 0; count < 50; count++) yield* pass
      const before = [time.now(), started.length]
      send("b", "again", 0.25)
      assert.strictEqual(started.at(-1), "again")
      assert.deepStrictEqual([time.now() - 0.25, started.length - 1], before)
    })
  )

  it.effect("a request that throws does not keep the others from starting", () =>
    Effect.gen(function* () {
      const { send, started } = setUp()
      const pacer = new RequestPacer(virtualTime().time)
      assert.throws(() =>
        pacer.start("a", () => {
          throw new Error("broken")
        })
      )
      pacer.start("a", () => started.push("next"))
      send("a", "other", 1)
      yield* pass
      assert.deepStrictEqual(started, ["next", "other"])
    })
  )
})
