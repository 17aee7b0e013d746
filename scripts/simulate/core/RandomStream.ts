/** A stream of pseudo-random numbers. The same seed and name always give the same stream. */
export class RandomStream {
  #state: number
  readonly #seed: string

  constructor(seed: string) {
    this.#seed = seed
    this.#state = hash(seed)
  }

  /** A stream of its own for a part of the simulation, so that the numbers which others draw do not change it. */
  fork(name: string): RandomStream {
    return new RandomStream(`${this.#seed}/${name}`)
  }

  /** A number from 0 up to, but not including, 1: the generator Mulberry32. */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0
    let mixed = this.#state
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }

  /** A number of a range, evenly distributed. */
  between(from: number, to: number): number {
    return from + (to - from) * this.next()
  }

  /** A whole number of a range, both ends included. */
  int(from: number, to: number): number {
    return from + Math.floor(this.next() * (to - from + 1))
  }

  /** A number of a range whose logarithm is evenly distributed: small numbers are as likely as large ones. */
  logarithmic(from: number, to: number): number {
    return from * (to / from) ** this.next()
  }

  chance(probability: number): boolean {
    return this.next() < probability
  }

  pick<A>(list: readonly [A, ...ReadonlyArray<A>]): A {
    return list[this.int(0, list.length - 1)] ?? list[0]
  }

  shuffle<A>(list: ReadonlyArray<A>): Array<A> {
    return list
      .map((item) => ({ item, place: this.next() }))
      .toSorted((a, b) => a.place - b.place)
      .map(({ item }) => item)
  }
}

/** FNV-1a, with a final mix so that similar names give unrelated streams. */
const hash = (text: string): number => {
  let value = 0x811c9dc5
  for (let i = 0; i < text.length; i++) value = Math.imul(value ^ text.charCodeAt(i), 0x01000193)
  value = Math.imul(value ^ (value >>> 16), 0x85ebca6b)
  return value ^ (value >>> 13)
}
