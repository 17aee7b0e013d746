import { assert, describe, it } from "@effect/vitest"
import { DateTime, Effect, Schema } from "effect"
import { generateTraceId, idBound, SessionId, StepId, uuidV7Hex, type TraceId } from "../../src/domain/Ids.ts"

describe("Ids", () => {
  it("identifiers sort by creation order, also within one millisecond", () => {
    const made = Array.from({ length: 50_000 }, uuidV7Hex)
    assert.deepStrictEqual(made, made.toSorted())
    assert.strictEqual(new Set(made).size, made.length)
  })

  it("an identifier is its prefix and a UUIDv7 (RFC 9562) of the current time", () => {
    const id = Effect.runSync(SessionId.generate)
    assert.match(id, /^ses_[0-9a-f]{12}7[0-9a-f]{3}[89ab][0-9a-f]{15}$/)
    assert.approximately(Number.parseInt(id.slice(4, 16), 16), Date.now(), 5_000)
  })

  it("idBound lies the given days beside the ids of a time", () => {
    const id = Effect.runSync(SessionId.generate)
    const now = DateTime.makeUnsafe(Date.now())
    assert.isBelow(idBound("ses", now, -1).localeCompare(id), 0)
    assert.isAbove(idBound("ses", now, 1).localeCompare(id), 0)
    assert.strictEqual(idBound("ses", DateTime.makeUnsafe(0), 1), "ses_000005265c00")
  })

  it("trace ids are 32 lowercase hex digits and unique", () => {
    const made = Array.from({ length: 1_000 }, () => Effect.runSync(generateTraceId))
    for (const id of made) assert.match(id, /^[0-9a-f]{32}$/)
    assert.strictEqual(new Set<TraceId>(made).size, made.length)
  })

  it("step ids are free text, except for names that a path would lose", () => {
    const isStepId = Schema.is(StepId)
    for (const id of ["refund-1", "a/b", "...", ".a", "..%2F", "100%", "a.", "\u00e4\u2192"]) {
      assert.isTrue(isStepId(id), id)
    }
    for (const id of ["", ".", "..", " ", "a\nb"]) assert.isFalse(isStepId(id), JSON.stringify(id))
  })
})
