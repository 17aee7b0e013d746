import { isSubWord } from "./tokenize.ts"

/**
 * How similar two inputs are, from 0 to 1, by their words and sub-words: a weighted Jaccard index, in which rare ones count more, and a
 * sub-word less than half as much as a word.
 *
 * ```
 *                        weight of the shared words
 *   ───────────────────────────────────────────────────────────────────
 *   weight of the input's words + weight of the example's other words
 * ```
 *
 * It is 1 if both have the same words, and 0 if they share none, or too little. Each of the example's other words has the mean weight of
 * the input's words, because only the words of the input are looked up. On short messages it finds more than BM25 with stems and without
 * stop words, and other than that in any language (docs/architecture/datasets.md). Its scores have an upper limit, unlike scores of BM25.
 */

/** The weight of a sub-word by that of a word that is as frequent. */
const SUB_WORD_WEIGHT = 0.4

/**
 * The lowest similarity by sub-words alone. Of other forms of the same words, 1 in 20 has less than 0.07; of unrelated texts, 3 in 4 have
 * less than 0.05.
 */
const MIN_SUB_WORD_SIMILARITY = 0.05

/** The words and sub-words of an input, weighted for one dataset version. */
export interface WeightedWords {
  /** Weight by word. */
  readonly weights: ReadonlyMap<number, number>
  /** Sum of the weights. */
  readonly total: number
  /** Mean of the weights: the weight of each word that the input does not have. */
  readonly mean: number
}

/**
 * The weight of a word that `found` of `inputs` inputs have (inverse document frequency). Always above zero, so that inputs of frequent
 * words only are compared too.
 */
export const weightOf = (found: number, inputs: number): number => Math.log(1 + inputs / (found + 1))

/**
 * Weights the words of an input. `found` has the number of a version's inputs with each word. A word that none has gets the mean weight of
 * the others: it may be a typing error or a name, and says nothing about which example is near.
 */
export const weightedWords = (
  words: ReadonlyArray<number>,
  found: ReadonlyMap<number, number>,
  inputs: number
): WeightedWords => {
  const known = words.map((word) => found.get(word) ?? 0).filter((count) => count > 0)
  const mean = known.reduce((sum, count) => sum + weightOf(count, inputs), 0) / Math.max(1, known.length)
  const weights = new Map(
    words.map((word) => {
      const count = found.get(word) ?? 0
      const weight = count === 0 ? mean : weightOf(count, inputs)
      return [word, isSubWord(word) ? SUB_WORD_WEIGHT * weight : weight]
    })
  )
  const total = [...weights.values()].reduce((sum, weight) => sum + weight, 0)
  return { weights, total, mean: total / Math.max(1, weights.size) }
}

/** The similarity, from the weight of the shared words and the number of the example's other words. */
export const similarity = (words: WeightedWords, shared: number, others: number): number =>
  shared === 0 ? 0 : shared / (words.total + others * words.mean)

/**
 * The similarity of an example's words to an input's. 0 if they have a few sub-words in common and no word, as most texts of a language
 * have.
 */
export const similarityOf = (words: WeightedWords, example: ArrayLike<number> & Iterable<number>): number => {
  let shared = 0
  let others = 0
  let isWordShared = false
  for (const word of example) {
    const weight = words.weights.get(word)
    if (weight === undefined) others++
    else {
      shared += weight
      isWordShared ||= !isSubWord(word)
    }
  }
  // Exactly 1 for equal words, whatever the order in which their weights were added.
  if (others === 0 && example.length === words.weights.size) return 1
  const score = similarity(words, shared, others)
  return isWordShared || score >= MIN_SUB_WORD_SIMILARITY ? score : 0
}
