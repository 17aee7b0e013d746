/** Values by key, bounded by number and by weight: past either the one that was asked for longest ago goes first. */
export class LruCache<A> {
  readonly #limit: { readonly entries: number; readonly weight: number }
  /** A map is walked in the order of insertion; what is asked for is inserted anew. */
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
