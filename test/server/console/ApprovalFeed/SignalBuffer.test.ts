import { assert, describe, it } from "@effect/vitest"
import { SessionId } from "../../../../src/domain/Ids.ts"
import { makeSignalBuffer } from "../../../../src/server/console/ApprovalFeed/SignalBuffer.ts"

const session = (index: number) => SessionId.make(`ses_${index.toString(16).padStart(32, "0")}`)

describe("SignalBuffer of the inbox", () => {
  it("each read continues after the one before, and nothing is read twice", () => {
    const buffer = makeSignalBuffer()
    buffer.add([
      { session_id: session(1), newest: 2 },
      { session_id: session(1), newest: 1 }
    ])
    assert.deepStrictEqual(buffer.take(), [{ session_id: session(1), newest: 2, after: 0 }])
    // A replica receives its own signals twice.
    buffer.add([{ session_id: session(1), newest: 2 }])
    assert.deepStrictEqual(buffer.take(), [])
    buffer.add([{ session_id: session(1), newest: 5 }])
    assert.deepStrictEqual(buffer.take(), [{ session_id: session(1), newest: 5, after: 2 }])
  })

  it("lost signals, and changes of more than 5,000 sessions, make consoles refetch their inboxes", () => {
    const buffer = makeSignalBuffer()
    buffer.add(undefined)
    assert.isUndefined(buffer.take())
    const changes = (count: number) =>
      Array.from({ length: count }, (_, index) => ({ session_id: session(index), newest: 1 }))
    buffer.add(changes(5_000))
    assert.lengthOf(buffer.take() ?? [], 5_000)
    buffer.add(changes(5_001).map((signal) => ({ ...signal, newest: 2 })))
    assert.isUndefined(buffer.take())
    assert.deepStrictEqual(buffer.take(), [])
  })
})
