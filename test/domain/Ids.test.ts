import { assert, describe, it } from "@effect/vitest"
import { DateTime, Effect, Schema } from "effect"
import {
  FeedbackId,
  generateTraceId,
  SessionId,
  StepId,
  uuidV7Hex,
  type TraceId
} from "../../src/domain/Ids.ts"

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

  it("the lower bound of a time lies between the feedback of the millisecond before and that of the time", () => {
    const at = DateTime.makeUnsafe(1_800_000_000_000)
    const bound = FeedbackId.lowerBound(at)
    assert.isBelow(bound.localeCompare(Effect.runSync(FeedbackId.generateAt(at))), 0)
    const before = DateTime.subtract(at, { milliseconds: 1 })
    assert.isAbove(bound.localeCompare(Effect.runSync(FeedbackId.generateAt(before))), 0)
  })

  it("feedback of one millisecond sorts in the order of creation", () => {
    const at = DateTime.makeUnsafe(1_800_000_000_000)
    const ids = Array.from({ length: 100 }, () => Effect.runSync(FeedbackId.generateAt(at)))
    assert.deepStrictEqual(ids.toSorted(), ids)
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
