import { assert, describe, it } from "@effect/vitest"
import { similarityOf, weightedWords, weightOf } from "../../../src/domain/tasks/Similarity.ts"

/** The input "cancel the order", in a dataset where "the" is frequent. */
const words = weightedWords(
  [1, 2, 3],
  new Map([
    [1, 3],
    [2, 900],
    [3, 40]
  ]),
  1_000
)

describe("similarity", () => {
  it("is 1 for the same words, 0 without a common word, and in between otherwise", () => {
    assert.strictEqual(similarityOf(words, [3, 1, 2]), 1)
    assert.strictEqual(similarityOf(words, [4, 5]), 0)
    assert.strictEqual(similarityOf(words, []), 0)
    const some = similarityOf(words, [1, 2, 4])
    assert.isAbove(some, 0)
    assert.isBelow(some, 1)
    assert.isBelow(similarityOf(words, [1, 2, 3, 4]), 1)
  })

  it("a rare common word counts more than a frequent one, and other words count against an example", () => {
    assert.isAbove(similarityOf(words, [1]), similarityOf(words, [3]))
    assert.isAbove(similarityOf(words, [3]), similarityOf(words, [2]))
    assert.isAbove(similarityOf(words, [1, 4]), similarityOf(words, [1, 4, 5, 6, 7]))
  })

  it("a word that no input has weighs as much as the others on average", () => {
    const unknown = weightedWords([1, 7, 8], new Map([[1, 3]]), 1_000)
    assert.closeTo(similarityOf(unknown, [1]), 1 / 3, 1e-9)
    assert.strictEqual(similarityOf(weightedWords([7], new Map(), 10), [8]), 0)
  })

  it("a word that every input has still counts", () => {
    assert.isAbove(weightOf(1, 1), 0)
    assert.isAbove(weightOf(1_000, 1_000), 0)
  })
})
