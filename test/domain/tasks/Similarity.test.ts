import { assert, describe, it } from "@effect/vitest"
import { similarityOf, weightedWords, weightOf } from "../../../src/domain/tasks/Similarity.ts"

/** The input "cancel the order", in a dataset where "the" is frequent. */
const words = weightedWords(
  [2, 4, 6],
  new Map([
    [2, 3],
    [4, 900],
    [6, 40]
  ]),
  1_000
)

describe("similarity", () => {
  it("is 1 for the same words, 0 without a common word, and in between otherwise", () => {
    assert.strictEqual(similarityOf(words, [6, 2, 4]), 1)
    assert.strictEqual(similarityOf(words, [8, 10]), 0)
    assert.strictEqual(similarityOf(words, []), 0)
    const some = similarityOf(words, [2, 4, 8])
    assert.isAbove(some, 0)
    assert.isBelow(some, 1)
    assert.isBelow(similarityOf(words, [2, 4, 6, 8]), 1)
  })

  it("a rare common word counts more than a frequent one, and other words count against an example", () => {
    assert.isAbove(similarityOf(words, [2]), similarityOf(words, [6]))
    assert.isAbove(similarityOf(words, [6]), similarityOf(words, [4]))
    assert.isAbove(similarityOf(words, [2, 8]), similarityOf(words, [2, 8, 10, 12, 14]))
  })

  it("a word that no input has weighs as much as the others on average", () => {
    const unknown = weightedWords([2, 14, 16], new Map([[2, 3]]), 1_000)
    assert.closeTo(similarityOf(unknown, [2]), 1 / 3, 1e-9)
    assert.strictEqual(similarityOf(weightedWords([14], new Map(), 10), [16]), 0)
  })

  it("a word that every input has still counts", () => {
    assert.isAbove(weightOf(1, 1), 0)
    assert.isAbove(weightOf(1_000, 1_000), 0)
  })

  it("a sub-word counts less than a word that is as frequent", () => {
    const [word, subWord] = [2, 3]
    const found = new Map([
      [word, 5],
      [subWord, 5]
    ])
    const both = weightedWords([word, subWord], found, 1_000)
    assert.isAbove(similarityOf(both, [word]), similarityOf(both, [subWord]))
    assert.isAbove(similarityOf(both, [subWord]), 0)
  })

  it("a few sub-words in common are no similarity, unless a word is in common too", () => {
    const found = new Map([
      [2, 900],
      [3, 900]
    ])
    const input = weightedWords([2, 3, 5, 7, 9, 11, 13], found, 1_000)
    const others = Array.from({ length: 20 }, (_, n) => 100 + 2 * n)
    assert.strictEqual(similarityOf(input, [3, ...others]), 0)
    assert.isAbove(similarityOf(input, [3, 5, 7, 9, ...others]), 0.05)
    assert.isAbove(similarityOf(input, [2, ...others]), 0)
  })
})
