import { assert, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import {
  chooseScannedWords,
  MAX_SCANNED_POSTINGS,
  MAX_SUB_WORD_POSTINGS
} from "../../../src/domain/tasks/chooseScannedWords.ts"
import { similarityOf, weightedWords } from "../../../src/domain/tasks/Similarity.ts"

/** Chooses among words, or sub-words, that so many of the inputs contain. Returns the positions of the chosen ones. */
const choose = (counts: ReadonlyArray<number>, inputs: number, subCounts: ReadonlyArray<number> = []) => {
  const found = new Map([
    ...counts.map((count, index) => [2 * index, count] as const),
    ...subCounts.map((count, index) => [2 * index + 1, count] as const)
  ])
  const words = weightedWords([...found.keys()], found, inputs)
  const chosen = [...chooseScannedWords(words, found)]
  const positions = (kind: 0 | 1) =>
    chosen.filter((token) => token % 2 === kind).map((token) => (token - kind) / 2)
  return { words, chosen: positions(0), subWords: positions(1) }
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
        const others = counts.flatMap((count, word) =>
          count === 0 || chosen.includes(word) ? [] : [2 * word]
        )
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

  it("sub-words are scanned besides the words, while few inputs have them, or if there is no word", () => {
    const rare = choose([900, 5], 1_000, [7, 900, 3])
    assert.deepStrictEqual([rare.chosen, rare.subWords], [[1], [2, 0]])
    const frequent = choose([90_000, 5], 100_000, [90_000, 80_000])
    assert.deepStrictEqual([frequent.chosen, frequent.subWords], [[1], []])
    assert.deepStrictEqual(choose([0], 100_000, [90_000, 80_000]).subWords, [1])
    const many = Array.from({ length: 10 }, () => 10_000)
    assert.lengthOf(choose([5], 100_000, many).subWords, MAX_SUB_WORD_POSTINGS / 10_000)
  })
})
