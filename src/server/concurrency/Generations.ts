/**
 * A map in two generations: `rotate` starts a new one and forgets the one before the last. So entries that are not set again are forgotten
 * without a sweep, however many there are.
 */
export class Generations<Key, Value> {
  #young = new Map<Key, Value>()
  #old = new Map<Key, Value>()

  /** The entries that were set since the last rotation. */
  get size(): number {
    return this.#young.size
  }

  get(key: Key): Value | undefined {
    return this.#young.get(key) ?? this.#old.get(key)
  }

  set(key: Key, value: Value): void {
    this.#young.set(key, value)
  }

  rotate(): void {
    this.#old = this.#young
    this.#young = new Map()
  }
}
