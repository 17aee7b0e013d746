import { assert, describe, it } from "@effect/vitest"
import { type CollectorResponse, classifyResponse } from "../../../src/domain/telemetry/OtlpResponse.ts"

const response = (status: number, body = "", more: Partial<CollectorResponse> = {}): CollectorResponse => ({
  status,
  retryAfterMillis: null,
  body: Buffer.from(body),
  isComplete: true,
  ...more
})
const classify = (given: CollectorResponse, spans = 10) => classifyResponse(given, spans)

describe("classifyResponse", () => {
  it("retries 429, 502, 503 and 504, and no other status", () => {
    for (let status = 200; status < 600; status++) {
      const { _tag } = classify(response(status))
      const expected = status < 300 ? "Delivered" : [429, 502, 503, 504].includes(status) ? "Retry" : "Failed"
      assert.deepStrictEqual([status, _tag], [status, expected])
    }
  })

  it("a retry carries the delay that Retry-After asked for, or null", () => {
    for (const wait of [7_000, null]) {
      const outcome = classify(response(503, "", { retryAfterMillis: wait }))
      assert.strictEqual(outcome._tag === "Retry" ? outcome.retryAfter : undefined, wait)
    }
  })

  it("a 2xx with an empty body or a warning is a success", () => {
    for (const body of [
      "",
      "{}",
      `{"partialSuccess":{}}`,
      `{"partialSuccess":null}`,
      `{"partialSuccess":{"rejectedSpans":0,"errorMessage":"use another field"}}`,
      `{"partialSuccess":{"rejectedSpans":"0"},"unknown":[1]}`,
      `{"partial_success":{"rejected_spans":"0"}}`,
      "OK",
      "ok\n",
      `"success"`,
      "7"
    ]) {
      assert.strictEqual(classify(response(200, body))._tag, "Delivered", body)
    }
  })

  it("counts rejected spans given as a string or a number, at most the number sent, in either spelling", () => {
    for (const [rejected, counted] of [
      [`"3"`, 3],
      ["3", 3],
      [`"999"`, 10]
    ] as const) {
      for (const body of [
        `{"partialSuccess":{"rejectedSpans":${rejected}}}`,
        `{"partial_success":{"rejected_spans":${rejected}}}`
      ]) {
        const outcome = classify(response(200, body))
        assert.strictEqual(outcome._tag === "Partial" ? outcome.rejected : undefined, counted)
      }
    }
  })

  it("a 2xx with a page, or with a count that cannot be read, is a failure", () => {
    for (const body of [
      "<html></html>",
      "\n<!doctype html>",
      `{"partialSuccess":{"rejectedSpans":-1}}`,
      `{"partialSuccess":{"rejectedSpans":"many"}}`
    ]) {
      assert.strictEqual(classify(response(200, body))._tag, "Failed", body)
    }
    assert.strictEqual(classify(response(200, "{", { isComplete: false }))._tag, "Retry")
    const endless = response(200, "x".repeat(64 * 1024), { isComplete: false })
    assert.strictEqual(classify(endless)._tag, "Failed")
  })

  it("the outcome contains nothing of the collector's text", () => {
    const secret = "s3cr3t"
    for (const status of [200, 302, 400, 401, 403, 404, 413, 415, 429, 500, 503]) {
      for (const body of [secret, `{"partialSuccess":{"rejectedSpans":"1","errorMessage":"${secret}"}}`]) {
        assert.notInclude(JSON.stringify(classify(response(status, body))), secret)
      }
    }
  })
})
