/**
 * Most examples of a task to index per word. A more frequent word says little about similarity, and its posting list would grow with the
 * dataset; with this limit the search for the nearest example reads a bounded number of rows. It fits in a byte.
 */
export const EXAMPLES_PER_WORD = 200

/** Counters per row: one for each 16-bit value. */
const ROW = 2 ** 16

/** Stored size of a task's counts in bytes, however large its dataset is. */
export const COUNTS_BYTES = 2 * ROW

/**
 * Counts the indexed examples per word, up to `EXAMPLES_PER_WORD`: a count-min sketch (Cormode and Muthukrishnan, "An Improved Data Stream
 * Summary: The Count-Min Sketch and its Applications", 2005) with two rows of byte counters and conservative update (Estan and Varghese,
 * 2002). A count can be too high, if both counters of a word are shared with other words, but never too low. So the limit always holds, and
 * at worst a word stops being indexed a little early.
 */
export class WordCounts {
  readonly #counters: Uint8Array

  private constructor(counters: Uint8Array) {
    this.#counters = counters
  }

  /** The counts of an empty dataset. */
  static empty(): WordCounts {
    return new WordCounts(new Uint8Array(COUNTS_BYTES))
  }

  /** Restores stored counts of `COUNTS_BYTES` bytes. */
  static from(bytes: Uint8Array): WordCounts {
    return new WordCounts(Uint8Array.from(bytes))
  }

  /** Counts one more example for a word (a 32-bit number). Returns false and counts nothing if the word has reached the limit. */
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

  /** The counts to store. */
  bytes(): Uint8Array {
    return this.#counters
  }
}
