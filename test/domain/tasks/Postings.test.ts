import { assert, describe, it } from "@effect/vitest"
import {
  CHUNK_BYTES,
  MAX_ORDINAL,
  ordinalOf,
  PostingBuffer,
  PostingList,
  tokensOf
} from "../../../src/domain/tasks/Postings.ts"
import { MAX_SUB_WORDS, MAX_WORDS } from "../../../src/domain/tasks/tokenize.ts"

const read = (list: PostingList) => [...list.postings].map(ordinalOf)

describe("Postings", () => {
  it("a buffer returns the inputs of each word in runs of limited size, and is empty afterwards", () => {
    const buffer = new PostingBuffer()
    for (let ordinal = 1; ordinal <= 2_000; ordinal++) {
      buffer.add(ordinal % 3 === 0 ? [-7, 2 ** 31 - 1] : [-(2 ** 31), -7], ordinal)
    }
    assert.strictEqual(buffer.size, 4_000)
    const runs = [...buffer.drain()]
    assert.strictEqual(buffer.size, 0)
    assert.isTrue(runs.every(({ postings }) => postings.byteLength <= CHUNK_BYTES))
    const ordinals = (word: number) =>
      runs.filter((run) => run.word === word).flatMap(({ postings }) => read(new PostingList(postings)))
    const all = Array.from({ length: 2_000 }, (_, index) => index + 1)
    assert.deepStrictEqual(ordinals(-7), all)
    assert.deepStrictEqual(
      ordinals(2 ** 31 - 1),
      all.filter((ordinal) => ordinal % 3 === 0)
    )
    assert.deepStrictEqual(
      ordinals(-(2 ** 31)),
      all.filter((ordinal) => ordinal % 3 !== 0)
    )
    const preceding = new Map<number, number>()
    for (const run of runs) {
      assert.strictEqual(run.preceding, preceding.get(run.word) ?? 0)
      assert.strictEqual(run.firstOrdinal, ordinalOf(new PostingList(run.postings).postings[0]!))
      preceding.set(run.word, run.preceding + run.postings.byteLength / 4)
    }
  })

  it("a posting keeps the highest ordinal, and the number of tokens roughly", () => {
    for (let tokens = 1; tokens <= MAX_WORDS + MAX_SUB_WORDS; tokens++) {
      const buffer = new PostingBuffer()
      buffer.add(
        Array.from({ length: tokens }, (_, word) => word),
        MAX_ORDINAL
      )
      const [run] = [...buffer.drain()]
      const list = new PostingList(run!.postings)
      assert.strictEqual(ordinalOf(list.postings[0]!), MAX_ORDINAL)
      assert.closeTo(tokensOf(list.postings[0]!) / tokens, 1, 0.15)
    }
    assert.throws(() => new PostingBuffer().add([1], MAX_ORDINAL + 1), /cannot index/)
  })

  it("postings up to an ordinal are counted", () => {
    const buffer = new PostingBuffer()
    for (const ordinal of [3, 5, 8]) buffer.add([1], ordinal)
    const [run] = [...buffer.drain()]
    const list = new PostingList(run!.postings)
    assert.deepStrictEqual(
      [0, 2, 3, 4, 5, 8, 9].map((last) => list.countUpTo(last)),
      [0, 0, 1, 1, 2, 3, 3]
    )
  })
})
