/**
 * LRU cache limited by the number of entries and by their total weight: past either limit it evicts the least recently used entry.
 * Effect's `Cache` has no weights, and each of its lookups is an effect; this one is synchronous, for hot paths.
 */
export class LruCache<A> {
  readonly #limit: { readonly entries: number; readonly weight: number }
  readonly #onEvict: ((value: A) => void) | undefined
  /** A `Map` iterates in insertion order; a read moves its entry to the end. */
  readonly #entries = new Map<string, { readonly value: A; readonly weight: number }>()
  #weight = 0

  /** `onEvict` is called with each value that is removed because a limit is exceeded. */
  constructor(limit: { readonly entries: number; readonly weight: number }, onEvict?: (value: A) => void) {
    this.#limit = limit
    this.#onEvict = onEvict
  }

  get(key: string): A | undefined {
    const entry = this.#entries.get(key)
    if (entry === undefined) return undefined
    this.#entries.delete(key)
    this.#entries.set(key, entry)
    return entry.value
  }

  /** Replaces the value of this key, then evicts the least recently used entries until both limits hold. */
  set(key: string, value: A, weight: number): void {
    this.delete(key)
    this.#entries.set(key, { value, weight })
    this.#weight += weight
    for (const [oldest, entry] of this.#entries) {
      if (this.#entries.size <= this.#limit.entries && this.#weight <= this.#limit.weight) return
      this.delete(oldest)
      this.#onEvict?.(entry.value)
    }
  }

  /** Removes a key; returns its value. */
  delete(key: string): A | undefined {
    const entry = this.#entries.get(key)
    if (entry === undefined) return undefined
    this.#weight -= entry.weight
    this.#entries.delete(key)
    return entry.value
  }

  /** All entries, the least recently used first. Entries may be deleted meanwhile. */
  *entries(): IterableIterator<readonly [key: string, value: A]> {
    for (const [key, { value }] of this.#entries) yield [key, value]
  }
}
