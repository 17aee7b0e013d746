import { assert, describe, it } from "@effect/vitest"
import { COUNTS_BYTES, EXAMPLES_PER_WORD, WordCounts } from "../../../src/domain/tasks/WordCounts.ts"
import { hash } from "../../../src/domain/tasks/tokenize.ts"

describe("WordCounts", () => {
  it("a word is counted up to the limit, also after the counts were restored", () => {
    const counts = WordCounts.empty()
    const word = hash("parcel")
    for (let n = 0; n < EXAMPLES_PER_WORD - 1; n++) assert.isTrue(counts.tryCount(word))
    const kept = WordCounts.from(counts.bytes())
    assert.lengthOf(kept.bytes(), COUNTS_BYTES)
    assert.isTrue(kept.tryCount(word))
    assert.isFalse(kept.tryCount(word))
    assert.isTrue(kept.tryCount(hash("invoice")))
  })

  it("among many words none exceeds the limit and few reach it early", () => {
    const counts = WordCounts.empty()
    const common = Array.from({ length: 3_000 }, (_, n) => hash(`common ${n}`))
    for (let round = 0; round < EXAMPLES_PER_WORD; round++) for (const word of common) counts.tryCount(word)
    assert.isTrue(common.every((word) => !counts.tryCount(word)))
    const seldom = Array.from({ length: 10_000 }, (_, n) => hash(`seldom ${n}`))
    const taken = seldom.filter((word) => counts.tryCount(word)).length
    assert.isAbove(taken / seldom.length, 0.99)
  })
})
