import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { SessionId } from "../../../../src/domain/Ids.ts"
import {
  makeSignalBuffer,
  parsePayload
} from "../../../../src/server/approvals/SessionSignals/SignalBuffer.ts"

/** PostgreSQL refuses a NOTIFY whose payload has 8,000 bytes. */
const MAX_PAYLOAD_BYTES = 7_999

describe("SignalBuffer of sessions", () => {
  it.effect("signals of many sessions fit into payloads that PostgreSQL accepts, and arrive complete", () =>
    Effect.gen(function* () {
      const signals = yield* Effect.replicateEffect(
        Effect.map(SessionId.generate, (session_id) => ({ session_id, newest: Number.MAX_SAFE_INTEGER })),
        1_000
      )
      const buffer = makeSignalBuffer()
      buffer.add(signals)
      const payloads = buffer.takePayloads()
      for (const payload of payloads) assert.isAtMost(Buffer.byteLength(payload), MAX_PAYLOAD_BYTES)
      assert.deepStrictEqual(
        payloads.flatMap((payload) => parsePayload(payload) ?? []),
        signals
      )
      assert.deepStrictEqual(buffer.takePayloads(), [])
    })
  )

  it.effect("of several signals of a session the newest event is sent, in whatever order they come", () =>
    Effect.gen(function* () {
      const session_id = yield* SessionId.generate
      const buffer = makeSignalBuffer()
      for (const newest of [3, 9, 5]) buffer.add([{ session_id, newest }])
      assert.deepStrictEqual(buffer.takePayloads().map(parsePayload), [[{ session_id, newest: 9 }]])
    })
  )

  it.effect("while the database is slow, memory is bounded: one payload then stands for every session", () =>
    Effect.gen(function* () {
      const session_id = yield* SessionId.generate
      const many = Array.from({ length: 10_001 }, (_, index) => ({
        session_id: SessionId.make(`ses_${index.toString(16).padStart(32, "0")}`),
        newest: 1
      }))
      const buffer = makeSignalBuffer()
      buffer.add(many)
      assert.deepStrictEqual(buffer.takePayloads().map(parsePayload), [undefined])
      buffer.add([{ session_id, newest: 2 }])
      assert.deepStrictEqual(buffer.takePayloads().map(parsePayload), [[{ session_id, newest: 2 }]])
    })
  )
})
