import { assert, describe, it } from "@effect/vitest"
import { DateTime, Effect, Schema } from "effect"
import { generateTraceId, idBound, SessionId, StepId, uuidV7Hex, type TraceId } from "../../src/domain/Ids.ts"

describe("identifiers", () => {
  it("sort by the order of their making, however many fall into one millisecond", () => {
    const made = Array.from({ length: 50_000 }, uuidV7Hex)
    assert.deepStrictEqual(made, made.toSorted())
    assert.strictEqual(new Set(made).size, made.length)
  })

  it("are version 7 of RFC 9562, of this moment, behind their prefix", () => {
    const id = Effect.runSync(SessionId.generate)
    assert.match(id, /^ses_[0-9a-f]{12}7[0-9a-f]{3}[89ab][0-9a-f]{15}$/)
    assert.approximately(Number.parseInt(id.slice(4, 16), 16), Date.now(), 5_000)
  })

  it("are bounded by the time of their making, some days aside", () => {
    const id = Effect.runSync(SessionId.generate)
    const now = DateTime.makeUnsafe(Date.now())
    assert.isBelow(idBound("ses", now, -1).localeCompare(id), 0)
    assert.isAbove(idBound("ses", now, 1).localeCompare(id), 0)
    assert.strictEqual(idBound("ses", DateTime.makeUnsafe(0), 1), "ses_000005265c00")
  })

  it("of traces are 32 lowercase hex digits, never the same", () => {
    const made = Array.from({ length: 1_000 }, () => Effect.runSync(generateTraceId))
    for (const id of made) assert.match(id, /^[0-9a-f]{32}$/)
    assert.strictEqual(new Set<TraceId>(made).size, made.length)
  })

  it("of steps are the caller's own, but none that a path would lose", () => {
    const isStepId = Schema.is(StepId)
    for (const id of ["refund-1", "a/b", "...", ".a", "..%2F", "100%", "a.", "\u00e4\u2192"]) {
      assert.isTrue(isStepId(id), id)
    }
    for (const id of ["", ".", "..", " ", "a\nb"]) assert.isFalse(isStepId(id), JSON.stringify(id))
  })
})
