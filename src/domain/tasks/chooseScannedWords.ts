import type { WeightedWords } from "./Similarity.ts"

/**
 * Postings of an input's words that a look-up scans, besides the postings of the rarest word. With the limit of chunks per word, it bounds the work
 * of a look-up.
 */
export const MAX_SCANNED_POSTINGS = 200_000

/** Words of an input whose postings a look-up scans. */
const MAX_SCANNED_WORDS = 64

/**
 * Share of the weight of an input's words that its most frequent words have together. They need not be scanned: an example that shares only
 * such words has at most this similarity. They have most of the postings, and are counted when candidates are scored.
 */
const MAX_SKIPPED_WEIGHT = 0.15

/**
 * Chooses the words by which candidates are selected: the rarest ones, at least one. `found` has the number of a version's inputs with each
 * word. The choice depends on the version and the input only.
 */
export const chooseScannedWords = (
  { total, weights }: WeightedWords,
  found: ReadonlyMap<number, number>
): ReadonlySet<number> => {
  const weightOf = (word: number): number => weights.get(word) ?? 0
  const rarestFirst = [...found]
    .filter(([, count]) => count > 0)
    .toSorted(([left, leftCount], [right, rightCount]) => leftCount - rightCount || left - right)
  let skipped = rarestFirst.reduce((sum, [word]) => sum + weightOf(word), 0)
  let postings = 0
  const chosen = new Set<number>()
  for (const [word, count] of rarestFirst) {
    postings += count
    const isEnough =
      skipped <= MAX_SKIPPED_WEIGHT * total ||
      postings > MAX_SCANNED_POSTINGS ||
      chosen.size === MAX_SCANNED_WORDS
    if (isEnough && chosen.size > 0) break
    chosen.add(word)
    skipped -= weightOf(word)
  }
  return chosen
}
