import { BestScores } from "./BestScores.ts"
import { ordinalOf, type PostingList, tokensOf } from "./Postings.ts"
import { similarity, type WeightedWords } from "./Similarity.ts"

/** A word of an input, with the inputs of the dataset that contain it. */
export interface ScannedWord {
  readonly word: number
  readonly postings: PostingList
}

/** Ordinals that are scored together, so that their sums stay in the processor's cache. */
const BLOCK = 2 ** 13

/** Steps of a similarity. */
const STEPS = 4_096

/** The weight of the shared words of each input. Shared by all calls: a call is synchronous, and leaves zeros. */
const sums = new Float32Array(BLOCK)

/** Tokens of each input, without the shared words: negative if a text has more words than its length class says. */
const others = new Int16Array(BLOCK)

/** The inputs of a block that have a scanned word. */
const touched = new Uint16Array(BLOCK)

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
    postings: postings.postings,
    weight: words.weights.get(word) ?? 0,
    end: postings.countUpTo(last),
    next: 0
  }))
  const best = new BestScores(limit)
  // The weight of an input's shared words times this is at least its score, however the division of the score is rounded.
  const scale = (STEPS * (1 + 1e-9)) / words.total
  for (let at = nextOrdinal(lists); at !== undefined; at = nextOrdinal(lists)) {
    const start = at - (at % BLOCK)
    let size = 0
    for (const list of lists) {
      const { end, postings, weight } = list
      let { next } = list
      for (; next < end; next++) {
        const posting = postings[next] ?? 0
        const offset = ordinalOf(posting) - start
        if (offset >= BLOCK) break
        const sum = sums[offset] ?? 0
        if (sum === 0) {
          touched[size++] = offset
          others[offset] = tokensOf(posting) - 1
        } else {
          others[offset] = (others[offset] ?? 0) - 1
        }
        sums[offset] = sum + weight
      }
      list.next = next
    }
    for (let index = 0; index < size; index++) {
      const offset = touched[index] ?? 0
      const sum = sums[offset] ?? 0
      sums[offset] = 0
      // Most inputs: only candidates that may be among the best need a division.
      if (sum * scale < best.lowest) continue
      const near = similarity(words, sum, Math.max(0, others[offset] ?? 0))
      best.add(start + offset, near >= 1 ? STEPS : Math.floor(near * STEPS))
    }
  }
  return best.chosen()
}

/** The lowest ordinal that was not read yet. */
const nextOrdinal = (
  lists: ReadonlyArray<{ readonly postings: Uint32Array; readonly end: number; readonly next: number }>
): number | undefined => {
  let lowest: number | undefined
  for (const { end, next, postings } of lists) {
    if (next === end) continue
    const ordinal = ordinalOf(postings[next] ?? 0)
    if (lowest === undefined || ordinal < lowest) lowest = ordinal
  }
  return lowest
}
