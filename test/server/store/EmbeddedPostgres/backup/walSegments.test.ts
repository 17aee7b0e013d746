import { assert, describe, it } from "@effect/vitest"
import { parseLsn, walSegments } from "../../../../../src/server/store/EmbeddedPostgres/backup/walSegments.ts"

const MIB = 1024n * 1024n

describe("walSegments", () => {
  const of = (start: string, end: string, segmentBytes = 16n * MIB) =>
    walSegments({ timeline: 1, start: parseLsn(start) ?? 0n, end: parseLsn(end) ?? 0n, segmentBytes })

  it("the file of a range within one segment", () => {
    assert.deepEqual(of("0/2000028", "0/2000158"), ["000000010000000000000002"])
  })

  it("an end at a boundary needs no further file", () => {
    assert.deepEqual(of("0/2000028", "0/3000000"), ["000000010000000000000002"])
    assert.deepEqual(of("0/2000028", "0/3000001"), ["000000010000000000000002", "000000010000000000000003"])
  })

  it("the names continue after 4 GiB", () => {
    assert.deepEqual(of("0/FF000028", "1/1"), ["0000000100000000000000FF", "000000010000000100000000"])
  })

  it("segments of other sizes have other numbers", () => {
    assert.deepEqual(of("0/2000028", "0/2000158", 64n * MIB), ["000000010000000000000000"])
    assert.deepEqual(of("0/FFF00000", "1/1", MIB), ["000000010000000000000FFF", "000000010000000100000000"])
  })

  it("a text that is no position is refused", () => {
    for (const text of ["", "0", "0/", "0/G", "123456789/0", "0/0 "]) assert.isUndefined(parseLsn(text))
  })
})
