import { assert, describe, it } from "@effect/vitest"
import type { SeparateScores } from "../../../src/domain/telemetry/FeedbackConventions.ts"
import { classifyScoresResponse } from "../../../src/domain/telemetry/ScoresResponse.ts"

const classify = (scores: SeparateScores, status: number, body: unknown) =>
  classifyScoresResponse(
    {
      status,
      retryAfterMillis: null,
      body: new TextEncoder().encode(typeof body === "string" ? body : JSON.stringify(body)),
      isComplete: true
    },
    scores,
    3
  )

describe("ScoresResponse", () => {
  it("scores are delivered if the tool rejects none", () => {
    assert.deepStrictEqual(classify("log", 200, { partialSuccess: {} }), { _tag: "Delivered", status: 200 })
    assert.deepStrictEqual(classify("log", 200, ""), { _tag: "Delivered", status: 200 })
    const created = { successes: [{ id: "a", status: 201 }], errors: [] }
    assert.deepStrictEqual(classify("langfuse", 207, created), { _tag: "Delivered", status: 207 })
    assert.deepStrictEqual(classify("phoenix", 200, { data: [] }), { _tag: "Delivered", status: 200 })
  })

  it("rejected scores are counted, at most as many as were sent", () => {
    const partial = (rejected: number, status: number) => ({
      _tag: "Partial" as const,
      status,
      rejected,
      error: `the tool rejected ${rejected} of 3 scores`
    })
    const rejected = (rejectedLogRecords: unknown) => ({ partialSuccess: { rejectedLogRecords } })
    assert.deepStrictEqual(classify("log", 200, rejected("2")), partial(2, 200))
    assert.deepStrictEqual(classify("log", 200, rejected(9)), partial(3, 200))
    const errors = [{ id: "a", status: 400, message: "words of the tool" }]
    assert.deepStrictEqual(classify("langfuse", 207, { successes: [], errors }), partial(1, 207))
  })

  it("a batch is sent again if Langfuse could not store a score for the moment", () => {
    for (const status of [429, 500, 503]) {
      const errors = [
        { id: "a", status: 400 },
        { id: "b", status }
      ]
      assert.strictEqual(classify("langfuse", 207, { errors })._tag, "Retry")
    }
  })

  it("a status that tells of another kind of tool names the setting", () => {
    for (const scores of ["log", "langfuse", "phoenix"] as const) {
      const result = classify(scores, 404, "words of the tool")
      assert.strictEqual(result._tag, "Failed")
      assert.match(result._tag === "Failed" ? result.error : "", /^HTTP 404: check `scores`/)
      const page = classify(scores, 200, "<html>words of the tool</html>")
      assert.match(page._tag === "Failed" ? page.error : "", /check `scores`/)
      assert.strictEqual(classify(scores, 503, "")._tag, "Retry")
    }
  })
})
