/** LRU cache limited by the number of entries and by their total weight: past either limit it evicts the least recently read entry. */
export class LruCache<A> {
  readonly #limit: { readonly entries: number; readonly weight: number }
  /** A `Map` iterates in insertion order; a read moves its entry to the end. */
  readonly #entries = new Map<string, { readonly value: A; readonly weight: number }>()
  #weight = 0

  constructor(limit: { readonly entries: number; readonly weight: number }) {
    this.#limit = limit
  }

  get(key: string): A | undefined {
    const entry = this.#entries.get(key)
    if (entry === undefined) return undefined
    this.#entries.delete(key)
    this.#entries.set(key, entry)
    return entry.value
  }

  set(key: string, value: A, weight: number): void {
    this.#remove(key)
    this.#entries.set(key, { value, weight })
    this.#weight += weight
    for (const oldest of this.#entries.keys()) {
      if (this.#entries.size <= this.#limit.entries && this.#weight <= this.#limit.weight) return
      this.#remove(oldest)
    }
  }

  #remove(key: string): void {
    this.#weight -= this.#entries.get(key)?.weight ?? 0
    this.#entries.delete(key)
  }
}
