import { assert, describe, it } from "@effect/vitest"
import fc from "fast-check"
import { retryAfterMillis } from "../../../src/server/egress/retryAfterMillis.ts"

const now = Date.UTC(1994, 10, 6, 8, 49, 7)

describe("retryAfterMillis", () => {
  it("reads a number of seconds as milliseconds", () => {
    assert.strictEqual(retryAfterMillis("120", now), 120_000)
    assert.strictEqual(retryAfterMillis(" 0 ", now), 0)
  })

  it("reads an HTTP date in each of the three formats of RFC 9110", () => {
    for (const date of [
      "Sun, 06 Nov 1994 08:49:37 GMT",
      "Sunday, 06-Nov-94 08:49:37 GMT",
      "Sun Nov  6 08:49:37 1994"
    ]) {
      assert.strictEqual(retryAfterMillis(date, now), 30_000, date)
    }
  })

  it("returns 0 for a date in the past", () => {
    assert.strictEqual(retryAfterMillis("Sun, 06 Nov 1994 08:49:00 GMT", now), 0)
  })

  it("reads a two-digit year with the fixed pivot of Effect's parser: 69 is 2069, 70 is 1970", () => {
    const in2026 = Date.UTC(2026, 0, 1)
    assert.strictEqual(
      retryAfterMillis("Tuesday, 01-Jan-69 00:00:00 GMT", in2026),
      Date.UTC(2069, 0, 1) - in2026
    )
    assert.strictEqual(retryAfterMillis("Thursday, 01-Jan-70 00:00:00 GMT", in2026), 0)
  })

  it("returns null for a malformed header", () => {
    for (const text of [
      "",
      "soon",
      "-1",
      "1.5",
      "1e3",
      "0x10",
      "1994-11-06T08:49:37Z",
      "Sun, 06 Nov 1994 08:49:37",
      "Sun, 06 Nov 1994 08:49:37 CET",
      "Sun, 31 Nov 1994 08:49:37 GMT",
      "Sun, 06 Nov 1994 24:49:37 GMT",
      "Sun, 06 Foo 1994 08:49:37 GMT"
    ]) {
      assert.strictEqual(retryAfterMillis(text, now), null, text)
    }
  })

  it("never throws, and returns a safe non-negative integer or null", () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.nat().map(String), fc.bigInt({ min: 0n }).map(String)), (text) => {
        const wait = retryAfterMillis(text, now)
        assert.isTrue(wait === null || (Number.isSafeInteger(wait) && wait >= 0))
      })
    )
  })

  it("reads every date that Date.toUTCString writes", () => {
    fc.assert(
      fc.property(fc.date({ min: new Date(0), max: new Date("9999-01-01"), noInvalidDate: true }), (date) => {
        const seconds = Math.floor(date.getTime() / 1000) * 1000
        assert.strictEqual(retryAfterMillis(date.toUTCString(), 0), seconds)
      })
    )
  })
})
