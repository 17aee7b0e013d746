import { assert, describe, it } from "@effect/vitest"
import { DateTime, Result, Schema } from "effect"
import { Timestamp } from "../../src/domain/Time.ts"

const read = Schema.decodeUnknownResult(Timestamp)
const write = Schema.encodeSync(Timestamp)

describe("Timestamp", () => {
  it.each([
    ["2026-11-21T02:33:05.123Z", "2026-11-21T02:33:05.123Z"],
    ["2026-11-21t02:33:05z", "2026-11-21T02:33:05.000Z"],
    ["2026-11-21T02:33:05.123456789Z", "2026-11-21T02:33:05.123Z"],
    ["2026-11-21T01:00:00+02:00", "2026-11-20T23:00:00.000Z"],
    ["2028-02-29T00:00:00Z", "2028-02-29T00:00:00.000Z"],
    ["2000-02-29T23:59:59-12:00", "2000-03-01T11:59:59.000Z"],
    ["0001-01-01T00:00:00Z", "0001-01-01T00:00:00.000Z"],
    ["9999-12-31T23:59:59.999Z", "9999-12-31T23:59:59.999Z"]
  ])("%s is accepted and written as %s", (text, written) => {
    assert.strictEqual(write(Result.getOrThrow(read(text))), written)
    assert.isTrue(DateTime.isUtc(Result.getOrThrow(read(text))))
  })

  it.each([
    "2026-02-30T00:00:00Z",
    "2026-02-29T00:00:00Z",
    "1900-02-29T00:00:00Z",
    "2026-04-31T12:00:00+02:00",
    "2026-13-01T00:00:00Z",
    "2026-00-10T00:00:00Z",
    "2026-01-00T00:00:00Z",
    "2026-01-01T24:00:00Z",
    "2026-01-01T24:00:00.000+02:00",
    "2026-01-01T24:00:01Z",
    "2026-01-01T12:60:00Z",
    "0000-01-01T00:00:00Z",
    "10000-01-01T00:00:00Z",
    "2026-11-21",
    "2026-11-21T02:33:05",
    "2026-11-21 02:33:05Z",
    "1763692385",
    ""
  ])("%s is rejected", (text) => assert.isTrue(Result.isFailure(read(text))))
})
