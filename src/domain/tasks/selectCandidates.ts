import type { PostingList } from "./Postings.ts"
import { similarity, type WeightedWords } from "./Similarity.ts"

/** A word of an input, with the inputs of the dataset that contain it. */
export interface ScannedWord {
  readonly word: number
  readonly postings: PostingList
}

/** Ordinals that are scored together. Their sums take 7 bytes each. */
const BLOCK = 2 ** 16

/** Steps of a similarity. */
const STEPS = 4_096

/** Shared by all calls: a call is synchronous, and leaves them at zero. */
const sums = new Float32Array(BLOCK)
const sharedWords = new Uint8Array(BLOCK)
const tokenCounts = new Uint8Array(BLOCK)

/**
 * Selects the inputs that are probably the most similar: at most `limit` ordinals up to `last`, the newest of equally similar ones. Their
 * similarity is approximate, because a posting has only the approximate length of a text. Reads each posting once.
 */
export const selectCandidates = (
  words: WeightedWords,
  scanned: ReadonlyArray<ScannedWord>,
  { last, limit }: { readonly last: number; readonly limit: number }
): ReadonlyArray<number> => {
  const lists = scanned.map(({ postings, word }) => ({
    postings,
    weight: words.weights.get(word) ?? 0,
    end: postings.countUpTo(last),
    next: 0
  }))
  const capacity = lists.reduce((sum, { end }) => sum + end, 0)
  const found = new Uint32Array(capacity)
  const scores = new Uint16Array(capacity)
  /** How many inputs have each score. */
  const histogram = new Uint32Array(STEPS + 1)
  const touched = new Uint32Array(Math.min(BLOCK, capacity))
  let size = 0
  for (let at = nextOrdinal(lists); at !== undefined; at = nextOrdinal(lists)) {
    const start = at - (at % BLOCK)
    let count = 0
    for (const list of lists) {
      const { end, postings, weight } = list
      let { next } = list
      for (; next < end; next++) {
        const offset = postings.ordinal(next) - start
        if (offset >= BLOCK) break
        if (sharedWords[offset] === 0) {
          touched[count++] = offset
          tokenCounts[offset] = postings.tokens(next)
        }
        sharedWords[offset] = (sharedWords[offset] ?? 0) + 1
        sums[offset] = (sums[offset] ?? 0) + weight
      }
      list.next = next
    }
    for (let index = 0; index < count; index++) {
      const offset = touched[index] ?? 0
      const others = (tokenCounts[offset] ?? 0) - (sharedWords[offset] ?? 0)
      const near = similarity(words, sums[offset] ?? 0, others > 0 ? others : 0)
      const score = near >= 1 ? STEPS : Math.floor(near * STEPS)
      found[size] = start + offset
      scores[size] = score
      histogram[score] = (histogram[score] ?? 0) + 1
      size++
      sums[offset] = 0
      sharedWords[offset] = 0
    }
  }
  return best(found.subarray(0, size), scores, histogram, limit)
}

/** The lowest ordinal that was not read yet. */
const nextOrdinal = (
  lists: ReadonlyArray<{ readonly postings: PostingList; readonly end: number; readonly next: number }>
): number | undefined => {
  let lowest: number | undefined
  for (const { end, next, postings } of lists) {
    if (next === end) continue
    const ordinal = postings.ordinal(next)
    if (lowest === undefined || ordinal < lowest) lowest = ordinal
  }
  return lowest
}

/** The `limit` ordinals with the highest scores, and of the lowest of these scores the newest. */
const best = (
  found: Uint32Array,
  scores: Uint16Array,
  histogram: Uint32Array,
  limit: number
): ReadonlyArray<number> => {
  let threshold = STEPS
  let above = 0
  while (threshold > 0 && above + (histogram[threshold] ?? 0) < limit) above += histogram[threshold--] ?? 0
  const chosen: Array<number> = []
  const equal = new Uint32Array(histogram[threshold] ?? 0)
  let equals = 0
  for (let index = 0; index < found.length; index++) {
    const score = scores[index] ?? 0
    if (score > threshold) chosen.push(found[index] ?? 0)
    else if (score === threshold) equal[equals++] = found[index] ?? 0
  }
  const newest =
    equal.length <= limit - above ? equal : equal.toSorted().subarray(equal.length - (limit - above))
  return [...chosen, ...newest]
}
