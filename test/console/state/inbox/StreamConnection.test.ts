import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { TestClock } from "effect/testing"
import { INBOX_PING_MS } from "../../../../src/api/Console.ts"
import {
  makeStreamConnection,
  type StreamListener
} from "../../../../src/console/state/inbox/StreamConnection.ts"

/** A connection whose streams are simulated, with what it told its listener. */
const simulatedConnection = Effect.gen(function* () {
  const streams: Array<StreamListener & { closed: boolean }> = []
  const session = { isSignedIn: true }
  const told: Array<string> = []
  const connection = yield* makeStreamConnection(
    {
      connect: (listener) => {
        const stream = { ...listener, closed: false }
        streams.push(stream)
        return () => void (stream.closed = true)
      },
      isStillSignedIn: Effect.sync(() => session.isSignedIn)
    },
    {
      opened: () => void told.push("opened"),
      approval: () => {},
      ping: () => {},
      resync: () => void told.push("resync"),
      broken: (refused) => void told.push(refused ? "refused" : "broken")
    }
  )
  const settled = Effect.repeat(Effect.yieldNow, { times: 30 })
  return { ...connection, session, settled, streams, stream: () => streams.at(-1)!, told }
})

describe("StreamConnection", () => {
  it.effect("a refused stream is opened again with increasing delays, while the session is signed in", () =>
    Effect.gen(function* () {
      const { open, session, settled, stream, streams } = yield* simulatedConnection
      open()
      stream().broken(true)
      yield* settled
      yield* TestClock.adjust("3 seconds")
      assert.strictEqual(streams.length, 2)
      stream().broken(true)
      yield* settled
      yield* TestClock.adjust("5 seconds")
      assert.strictEqual(streams.length, 2)
      yield* TestClock.adjust("1 second")
      assert.strictEqual(streams.length, 3)
      session.isSignedIn = false
      stream().broken(true)
      yield* settled
      yield* TestClock.adjust("1 hour")
      assert.strictEqual(streams.length, 3)
    })
  )

  it.effect("a stream without heartbeats is replaced until one answers", () =>
    Effect.gen(function* () {
      const { open, stream, streams, told } = yield* simulatedConnection
      open()
      stream().opened()
      for (let beat = 0; beat < 5; beat++) {
        yield* TestClock.adjust(INBOX_PING_MS)
        stream().ping()
      }
      assert.deepStrictEqual([told, streams.length], [["opened"], 1])
      yield* TestClock.adjust(3 * INBOX_PING_MS)
      assert.deepStrictEqual([told, streams.length, streams[0]?.closed], [["opened", "broken"], 2, true])
      // The new stream neither opens nor fails.
      yield* TestClock.adjust("10 seconds")
      assert.strictEqual(streams.length, 3)
      stream().opened()
      assert.strictEqual(told.at(-1), "opened")
    })
  )

  it.effect("when the network changes, a stream with an overdue heartbeat is replaced at once", () =>
    Effect.gen(function* () {
      const { check, close, open, stream, streams } = yield* simulatedConnection
      check()
      assert.strictEqual(streams.length, 0)
      open()
      stream().opened()
      yield* TestClock.adjust(INBOX_PING_MS)
      check()
      assert.strictEqual(streams.length, 1)
      yield* TestClock.adjust(1)
      check()
      assert.strictEqual(streams.length, 2)
      close()
      yield* TestClock.adjust("1 hour")
      check()
      assert.deepStrictEqual([streams.length, stream().closed], [2, true])
    })
  )
})
