import { assert, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import { chooseScannedWords, MAX_SCANNED_POSTINGS } from "../../../src/domain/tasks/chooseScannedWords.ts"
import { similarityOf, weightedWords } from "../../../src/domain/tasks/Similarity.ts"

/** Chooses among words 0, 1, … that so many of the inputs contain. */
const choose = (counts: ReadonlyArray<number>, inputs: number) => {
  const found = new Map(counts.map((count, word) => [word, count]))
  const words = weightedWords([...found.keys()], found, inputs)
  return { words, chosen: [...chooseScannedWords(words, found)] }
}

describe("chooseScannedWords", () => {
  it("the rarest words are scanned, and frequent ones that say little are not", () => {
    assert.deepStrictEqual(choose([90_000, 3, 80_000, 40], 100_000).chosen, [1, 3])
    assert.deepStrictEqual(choose([0, 90_000, 7], 100_000).chosen, [2])
    assert.deepStrictEqual(choose([0, 0], 100_000).chosen, [])
  })

  it("an input of frequent words only is found by each of them", () => {
    assert.deepStrictEqual(choose([9_000, 6_000, 8_000], 10_000).chosen, [1, 2, 0])
    assert.deepStrictEqual(choose([90_000], 100_000).chosen, [0])
  })

  it("an example without any of the scanned words is not similar to the input", () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 0, max: 1_000 }), { minLength: 1, maxLength: 40 }), (counts) => {
        const { chosen, words } = choose(counts, 1_000)
        const others = counts.flatMap((count, word) => (count === 0 || chosen.includes(word) ? [] : [word]))
        assert.isAtMost(similarityOf(words, others), 0.15)
      })
    )
  })

  it("the work is bounded: so many postings, and so many words, but always the rarest word", () => {
    const frequent = Array.from({ length: 256 }, () => 50_000)
    assert.lengthOf(choose(frequent, 1_000_000).chosen, MAX_SCANNED_POSTINGS / 50_000)
    assert.lengthOf(choose(frequent.fill(1), 1_000_000).chosen, 64)
    assert.deepStrictEqual(choose([900_000, 800_000, 700_000], 1_000_000).chosen, [2])
  })
})
