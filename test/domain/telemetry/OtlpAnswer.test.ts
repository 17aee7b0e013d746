import { assert, describe, it } from "@effect/vitest"
import { type CollectorAnswer, judgeAnswer } from "../../../src/domain/telemetry/OtlpAnswer.ts"

const now = Date.parse("2026-11-21T00:00:00Z")

const answer = (status: number, body = "", more: Partial<CollectorAnswer> = {}): CollectorAnswer => ({
  status,
  retryAfter: undefined,
  body: Buffer.from(body),
  complete: true,
  ...more
})
const judge = (given: CollectorAnswer, spans = 10) => judgeAnswer(given, spans, now)

describe("judgeAnswer", () => {
  it("retries 429, 502, 503 and 504, and no other status", () => {
    for (let status = 200; status < 600; status++) {
      const { _tag } = judge(answer(status))
      const expected = status < 300 ? "Delivered" : [429, 502, 503, 504].includes(status) ? "Retry" : "Failed"
      assert.deepStrictEqual([status, _tag], [status, expected])
    }
  })

  it("reads Retry-After in both forms", () => {
    for (const [header, wait] of [
      ["7", 7_000],
      ["Sat, 21 Nov 2026 00:00:09 GMT", 9_000],
      ["soon", null],
      [undefined, null]
    ] as const) {
      const outcome = judge(answer(503, "", { retryAfter: header }))
      assert.strictEqual(outcome._tag === "Retry" ? outcome.retryAfter : undefined, wait)
    }
  })

  it("takes a 2xx that says nothing, or warns, for success", () => {
    for (const body of [
      "",
      "{}",
      `{"partialSuccess":{}}`,
      `{"partialSuccess":null}`,
      `{"partialSuccess":{"rejectedSpans":0,"errorMessage":"use another field"}}`,
      `{"partialSuccess":{"rejectedSpans":"0"},"unknown":[1]}`
    ]) {
      assert.strictEqual(judge(answer(200, body))._tag, "Delivered", body)
    }
  })

  it("counts what was rejected, as a string or a number, and no more than was sent", () => {
    for (const [rejected, counted] of [
      [`"3"`, 3],
      ["3", 3],
      [`"999"`, 10]
    ] as const) {
      const outcome = judge(answer(200, `{"partialSuccess":{"rejectedSpans":${rejected}}}`))
      assert.strictEqual(outcome._tag === "Partial" ? outcome.rejected : undefined, counted)
    }
  })

  it("believes no success that is not OTLP's", () => {
    for (const body of [
      "<html></html>",
      "ok",
      "[]",
      "7",
      `{"partialSuccess":{"rejectedSpans":-1}}`,
      `{"partialSuccess":{"rejectedSpans":"many"}}`
    ]) {
      assert.strictEqual(judge(answer(200, body))._tag, "Failed", body)
    }
    assert.strictEqual(judge(answer(200, "{", { complete: false }))._tag, "Retry")
    const endless = answer(200, "x".repeat(64 * 1024), { complete: false })
    assert.strictEqual(judge(endless)._tag, "Failed")
  })

  it("repeats nothing of what the collector said", () => {
    const secret = "s3cr3t"
    for (const status of [200, 302, 400, 401, 403, 404, 413, 415, 429, 500, 503]) {
      for (const body of [secret, `{"partialSuccess":{"rejectedSpans":"1","errorMessage":"${secret}"}}`]) {
        assert.notInclude(JSON.stringify(judge(answer(status, body, { retryAfter: secret }))), secret)
      }
    }
  })
})
