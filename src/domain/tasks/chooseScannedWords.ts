import type { WeightedWords } from "./Similarity.ts"
import { isSubWord } from "./tokenize.ts"

/**
 * Postings of an input's words, and of its sub-words, that a look-up scans, besides the postings of the rarest word. With the limit of chunks
 * per word, they bound the work of a look-up. Sub-words have fewer: in a large dataset each is in many inputs, and the words tell them apart.
 */
export const MAX_SCANNED_POSTINGS = 200_000
export const MAX_SUB_WORD_POSTINGS = 30_000

/** Words, and sub-words, of an input whose postings a look-up scans. */
const MAX_SCANNED_WORDS = 64

/**
 * Share of the weight of an input's words that its most frequent words have together, and the same of sub-words. They need not be scanned: an
 * example that shares only such words has at most this similarity. They have most of the postings, and are counted when candidates are scored.
 */
const MAX_SKIPPED_WEIGHT = 0.15

/**
 * Chooses the words and sub-words by which candidates are selected: the rarest ones, at least one. `found` has the number of a version's
 * inputs with each word. The choice depends on the version and the input only.
 */
export const chooseScannedWords = (
  { weights }: WeightedWords,
  found: ReadonlyMap<number, number>
): ReadonlySet<number> => {
  const chosen = new Set<number>()
  const choose = (tokens: ReadonlyArray<readonly [word: number, weight: number]>, limit: number): void => {
    const total = tokens.reduce((sum, [, weight]) => sum + weight, 0)
    const rarestFirst = tokens
      .map(([word, weight]) => ({ word, weight, count: found.get(word) ?? 0 }))
      .filter(({ count }) => count > 0)
      .toSorted((left, right) => left.count - right.count || left.word - right.word)
    let skipped = rarestFirst.reduce((sum, { weight }) => sum + weight, 0)
    let postings = 0
    const last = chosen.size + MAX_SCANNED_WORDS
    for (const { count, weight, word } of rarestFirst) {
      postings += count
      const isEnough = skipped <= MAX_SKIPPED_WEIGHT * total || postings > limit || chosen.size === last
      if (isEnough && chosen.size > 0) break
      chosen.add(word)
      skipped -= weight
    }
  }
  const all = [...weights]
  choose(
    all.filter(([word]) => !isSubWord(word)),
    MAX_SCANNED_POSTINGS
  )
  choose(
    all.filter(([word]) => isSubWord(word)),
    MAX_SUB_WORD_POSTINGS
  )
  return chosen
}
