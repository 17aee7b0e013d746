import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { RequestPacer } from "../../../../src/server/http/listen/RequestPacer.ts"

/** The end of the current pass of the event loop. */
const pass = Effect.callback<void>((resume) => {
  setImmediate(() => resume(Effect.void))
})

/** A pacer on a clock that only requests move, and the requests that it started. */
const setUp = () => {
  let now = 0
  const started: Array<string> = []
  const pacer = new RequestPacer(() => now)
  return {
    started,
    send: (client: string, name: string, millis: number) =>
      pacer.start(client, () => {
        started.push(name)
        now += millis
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

  it.effect("a request that throws does not keep the others from starting", () =>
    Effect.gen(function* () {
      const { send, started } = setUp()
      const pacer = new RequestPacer(() => 0)
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
