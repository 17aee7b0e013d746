/** Above every ordinal, which is an `integer` of the database. */
const ORDINALS = 2 ** 32

/**
 * The ordinals with the highest scores, and of equal scores the newest. Holds at most twice as many as are chosen, however many are added:
 * if it is full, the lower half is dropped.
 */
export class BestScores {
  /** The lowest score that may still be among the best. */
  lowest = 0
  readonly #limit: number
  /** A score and its ordinal in one number. Scores are below 2^20. */
  readonly #entries: Float64Array
  #size = 0

  constructor(limit: number) {
    this.#limit = limit
    this.#entries = new Float64Array(2 * limit)
  }

  add(ordinal: number, score: number): void {
    if (score < this.lowest) return
    this.#entries[this.#size++] = score * ORDINALS + ordinal
    if (this.#size < this.#entries.length) return
    this.#entries.set(this.#entries.toSorted().subarray(this.#limit))
    this.#size = this.#limit
    this.lowest = Math.floor((this.#entries[0] ?? 0) / ORDINALS)
  }

  /** At most `limit` of the ordinals, the best first. */
  chosen(): ReadonlyArray<number> {
    const best = this.#entries.subarray(0, this.#size).toSorted().toReversed().subarray(0, this.#limit)
    return Array.from(best, (entry) => entry % ORDINALS)
  }
}
