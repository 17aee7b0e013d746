import { assert, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import { PostingBuffer, PostingList } from "../../../src/domain/tasks/Postings.ts"
import { selectCandidates } from "../../../src/domain/tasks/selectCandidates.ts"
import { similarityOf, weightedWords } from "../../../src/domain/tasks/Similarity.ts"

/** Indexes texts, the first with ordinal `from`, and selects candidates for the words of an input. */
const index = (texts: ReadonlyArray<ReadonlyArray<number>>, from = 1) => {
  const buffer = new PostingBuffer()
  texts.forEach((tokens, n) => buffer.add(tokens, from + n))
  const lists = new Map<number, Array<number>>()
  for (const { postings, word } of buffer.drain()) {
    lists.set(word, [...(lists.get(word) ?? []), ...postings])
  }
  const last = from + texts.length - 1
  return (input: ReadonlyArray<number>, limit: number, upTo = last) => {
    const scanned = input.flatMap((word) => {
      const bytes = lists.get(word)
      return bytes === undefined ? [] : { word, postings: new PostingList(Uint8Array.from(bytes)) }
    })
    const found = new Map(scanned.map(({ postings, word }) => [word, postings.countUpTo(upTo)]))
    const words = weightedWords(input, found, upTo)
    return { words, candidates: selectCandidates(words, scanned, { last: upTo, limit }) }
  }
}

const text = fc.uniqueArray(
  fc.integer({ min: 1, max: 12 }).map((n) => 2 * n),
  { minLength: 1, maxLength: 6 }
)

describe("selectCandidates", () => {
  it("the most similar of all texts is selected, in any block, and each candidate once", () => {
    fc.assert(
      fc.property(
        fc.array(text, { minLength: 1, maxLength: 60 }),
        text,
        fc.constantFrom(1, 65_500, 131_000),
        (texts, input, from) => {
          const { candidates, words } = index(texts, from)(input, 5)
          const scores = texts.map((tokens) => similarityOf(words, tokens))
          const shared = texts.filter((tokens) => tokens.some((word) => input.includes(word))).length
          assert.lengthOf(new Set(candidates), Math.min(5, shared))
          if (shared === 0) return
          const best = Math.max(...candidates.map((ordinal) => scores[ordinal - from]!))
          assert.closeTo(best, Math.max(...scores), 1e-9)
        }
      )
    )
  })

  it("of equally similar texts the newest are selected, and later ones never", () => {
    const same = Array.from({ length: 200 }, () => [1, 2])
    const find = index(same)
    assert.sameMembers([...find([1], 3).candidates], [198, 199, 200])
    assert.sameMembers([...find([1], 3, 150).candidates], [148, 149, 150])
    assert.deepStrictEqual(find([3], 3).candidates, [])
  })

  it("a call leaves nothing behind for the next", () => {
    const find = index([[1, 2, 3], [1], [2]])
    const first = find([1, 2], 3)
    assert.deepStrictEqual(find([1, 2], 3), first)
    assert.deepStrictEqual([...index([[9]])([9], 3).candidates], [1])
  })
})
