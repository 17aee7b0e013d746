/**
 * The most examples of a task that one word leads to. A word that more have tells little, and its list would grow with the dataset; with
 * this limit the nearest example is looked for among a bounded number. It fits a byte.
 */
export const EXAMPLES_PER_WORD = 200

/** Counters of each of the two rows: one for every value of 16 bits. */
const ROW = 2 ** 16

/** Bytes that are kept of a task's counts, however large its dataset. */
export const COUNTS_BYTES = 2 * ROW

/**
 * How many examples of a task are found by each word, up to `EXAMPLES_PER_WORD`: a count-min sketch (Cormode and Muthukrishnan, "An Improved
 * Data Stream Summary: The Count-Min Sketch and its Applications", 2005) of two rows of byte counters with conservative update
 * (Estan and Varghese, 2002). It may count a word too high, where both its counters are shared with others, and never too low: so
 * the limit holds, and a word is given up a little early at worst.
 */
export class WordCounts {
  readonly #counters: Uint8Array

  private constructor(counters: Uint8Array) {
    this.#counters = counters
  }

  /** Of no examples. */
  static empty(): WordCounts {
    return new WordCounts(new Uint8Array(COUNTS_BYTES))
  }

  /** From what was kept: `COUNTS_BYTES` bytes. */
  static from(bytes: Uint8Array): WordCounts {
    return new WordCounts(Uint8Array.from(bytes))
  }

  /** Counts one more example for a word (a number of 32 bits); false, and nothing, where it leads to as many as it may. */
  tryCount(word: number): boolean {
    const high = word >>> 16
    const low = ROW + (word & 0xffff)
    const first = this.#counters[high] ?? 0
    const second = this.#counters[low] ?? 0
    const count = Math.min(first, second)
    if (count >= EXAMPLES_PER_WORD) return false
    if (first === count) this.#counters[high] = count + 1
    if (second === count) this.#counters[low] = count + 1
    return true
  }

  /** What to keep. */
  bytes(): Uint8Array {
    return this.#counters
  }
}
