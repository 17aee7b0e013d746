interface Entry<A> {
  readonly key: string
  readonly value: A
  readonly weight: number
  older: Entry<A> | undefined
  newer: Entry<A> | undefined
}

/**
 * LRU cache limited by the number of entries and by their total weight: past either limit it evicts the least recently used entry.
 * Effect's `Cache` has no weights, and each of its lookups is an effect; this one is synchronous, for hot paths.
 */
export class LruCache<A> {
  readonly #limit: { readonly entries: number; readonly weight: number }
  readonly #onEvict: ((value: A) => void) | undefined
  readonly #entries = new Map<string, Entry<A>>()
  /**
   * The ends of the list of entries by their last use. The order of the map would do, but finding its first entry takes as long as there
   * are places of entries that were deleted before it.
   */
  #oldest: Entry<A> | undefined
  #newest: Entry<A> | undefined
  #weight = 0

  /** `onEvict` is called with each value that is removed, or not inserted, because a limit is exceeded. */
  constructor(limit: { readonly entries: number; readonly weight: number }, onEvict?: (value: A) => void) {
    this.#limit = limit
    this.#onEvict = onEvict
  }

  get(key: string): A | undefined {
    const entry = this.#entries.get(key)
    if (entry === undefined) return undefined
    this.#unlink(entry)
    this.#append(entry)
    return entry.value
  }

  /**
   * Replaces the value of this key, then evicts the least recently used entries until both limits hold. A value that is heavier than the
   * limit is not inserted: it would evict all others, and then itself.
   */
  set(key: string, value: A, weight: number): void {
    this.delete(key)
    if (weight > this.#limit.weight) {
      this.#onEvict?.(value)
      return
    }
    const entry: Entry<A> = { key, value, weight, older: undefined, newer: undefined }
    this.#entries.set(key, entry)
    this.#append(entry)
    this.#weight += weight
    while (
      this.#oldest !== undefined &&
      (this.#entries.size > this.#limit.entries || this.#weight > this.#limit.weight)
    ) {
      const evicted = this.#oldest
      this.delete(evicted.key)
      this.#onEvict?.(evicted.value)
    }
  }

  /** Removes a key; returns its value. */
  delete(key: string): A | undefined {
    const entry = this.#entries.get(key)
    if (entry === undefined) return undefined
    this.#entries.delete(key)
    this.#unlink(entry)
    this.#weight -= entry.weight
    return entry.value
  }

  /** All entries, the least recently used first. Each may be deleted when it is returned. */
  *entries(): IterableIterator<readonly [key: string, value: A]> {
    for (let entry = this.#oldest; entry !== undefined;) {
      const { key, newer, value } = entry
      yield [key, value]
      entry = newer
    }
  }

  #append(entry: Entry<A>): void {
    entry.older = this.#newest
    entry.newer = undefined
    if (this.#newest === undefined) this.#oldest = entry
    else this.#newest.newer = entry
    this.#newest = entry
  }

  #unlink({ newer, older }: Entry<A>): void {
    if (older === undefined) this.#oldest = newer
    else older.newer = newer
    if (newer === undefined) this.#newest = older
    else newer.older = older
  }
}
