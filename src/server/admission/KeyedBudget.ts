/**
 * A budget that keys share, such as organizations: the amount that each of them has in use now, and whether more fits. An
 * amount that does not fit is refused and does not wait. Plain and synchronous; keys that use nothing take no memory.
 */
export class KeyedBudget<Key> {
  readonly #perKey: number
  readonly #total: number
  readonly #amounts = new Map<Key, number>()
  #inUse = 0

  /** By default there is no limit. */
  constructor({
    perKey = Infinity,
    total = Infinity
  }: {
    readonly perKey?: number
    readonly total?: number
  }) {
    this.#perKey = perKey
    this.#total = total
  }

  /** The amount that all keys have in use. */
  get inUse(): number {
    return this.#inUse
  }

  /** The amount that a key has in use. */
  inUseBy(key: Key): number {
    return this.#amounts.get(key) ?? 0
  }

  /** Whether a key may use this amount more. */
  fits(key: Key, amount = 1): boolean {
    return this.#inUse + amount <= this.#total && this.inUseBy(key) + amount <= this.#perKey
  }

  take(key: Key, amount = 1): void {
    this.#inUse += amount
    this.#amounts.set(key, this.inUseBy(key) + amount)
  }

  giveBack(key: Key, amount = 1): void {
    const left = this.inUseBy(key) - amount
    this.#inUse -= amount
    if (left > 0) this.#amounts.set(key, left)
    else this.#amounts.delete(key)
  }
}
