/** Bytes of one posting: the ordinal of an input and the length class of its text. */
export const POSTING_BYTES = 4

/** Most bytes of postings in one stored row: with its key, a row stays below the size at which PostgreSQL moves values out of line. */
export const CHUNK_BYTES = 1_500

/** Bits of a posting that are its length class. */
const CLASS_BITS = 5

/** Highest ordinal of an input: 27 bits. */
export const MAX_ORDINAL = 2 ** (32 - CLASS_BITS) - 1

/** The smallest number of tokens of each length class, about a fifth more than that of the class before. Stored postings depend on it. */
const CLASS_STARTS = [1]
for (let start = 1; CLASS_STARTS.length < 2 ** CLASS_BITS; CLASS_STARTS.push(start)) {
  start = Math.max(start + 1, Math.round(1.2 * start))
}

/** A typical number of tokens for each length class. */
const CLASS_LENGTHS = Uint16Array.from(CLASS_STARTS, (start, index) =>
  Math.floor((start + (CLASS_STARTS[index + 1] ?? 1.2 * start) - 1) / 2)
)

/** The length class of a text with this number of tokens. */
const lengthClass = (tokens: number): number => CLASS_STARTS.filter((start) => start <= tokens).length - 1

/** Whether numbers in memory begin with their lowest byte, as on every common processor. */
const isLittleEndian = new Uint8Array(Uint16Array.of(1).buffer)[0] === 1

/** The ordinal of the input of a posting. */
export const ordinalOf = (posting: number): number => posting >>> CLASS_BITS

/** About how many tokens the input of a posting has. */
export const tokensOf = (posting: number): number => CLASS_LENGTHS[posting % 2 ** CLASS_BITS] ?? 0

/**
 * A posting list: ordinals ascend. Each posting is 32 bits, big-endian when it is stored: 27 of the ordinal, 5 of the length class. The fixed
 * size lets a list be appended to by concatenation, and searched.
 */
export class PostingList {
  /** The postings as numbers, from which `ordinalOf` and `tokensOf` read. */
  readonly postings: Uint32Array

  constructor(bytes: Uint8Array) {
    // A copy, because a list need not begin at a multiple of four bytes.
    const copy = new Uint8Array(bytes.subarray(0, bytes.byteLength - (bytes.byteLength % POSTING_BYTES)))
    if (isLittleEndian) Buffer.from(copy.buffer).swap32()
    this.postings = new Uint32Array(copy.buffer)
  }

  /** Number of postings whose ordinal is at most `last`. */
  countUpTo(last: number): number {
    let low = 0
    let high = this.postings.length
    while (low < high) {
      const middle = (low + high) >>> 1
      if (ordinalOf(this.postings[middle] ?? 0) <= last) low = middle + 1
      else high = middle
    }
    return low
  }
}

/** The postings without some inputs. */
export const withoutOrdinals = (bytes: Uint8Array, ordinals: ReadonlySet<number>): Uint8Array => {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const left = new Uint8Array(bytes.byteLength)
  let length = 0
  for (let offset = 0; offset < bytes.byteLength; offset += POSTING_BYTES) {
    if (ordinals.has(ordinalOf(view.getUint32(offset)))) continue
    left.set(bytes.subarray(offset, offset + POSTING_BYTES), length)
    length += POSTING_BYTES
  }
  return left.slice(0, length)
}

/** Consecutive postings of one word. */
export interface PostingRun {
  readonly word: number
  readonly firstOrdinal: number
  /** Number of postings of the word in earlier runs of the same drain. */
  readonly preceding: number
  readonly postings: Uint8Array
}

/** Initial number of postings that a buffer has space for. */
const INITIAL_CAPACITY = 1_024

/** Postings per drain: with 21 bits of position and 32 of the word, a sort key is an exact double. */
const POSITION = 2 ** 21

/** Parts in which a drain sorts the words, one after the other: sorting all of them without a pause would take long. */
const SORTED_PARTS = 8

/** Collects the postings of new inputs, and returns them by word. Takes 8 bytes per posting, and as much again while it is drained. */
export class PostingBuffer {
  #words = new Int32Array(INITIAL_CAPACITY)
  #postings = new Uint32Array(INITIAL_CAPACITY)
  #size = 0

  /** Number of postings; at most 2^21. */
  get size(): number {
    return this.#size
  }

  /** Adds the tokens of an input. Its ordinal is higher than that of each input before. */
  add(tokens: ReadonlyArray<number>, ordinal: number): void {
    if (ordinal > MAX_ORDINAL) throw new Error(`A dataset cannot index more than ${MAX_ORDINAL} inputs`)
    this.#reserve(tokens.length)
    const posting = ordinal * 2 ** CLASS_BITS + lengthClass(tokens.length)
    for (const word of tokens) {
      this.#words[this.#size] = word
      this.#postings[this.#size] = posting
      this.#size++
    }
  }

  /** Removes all postings and returns them in runs of at most `CHUNK_BYTES`, sorted by word and ordinal. */
  *drain(): Generator<PostingRun> {
    const order = new Float64Array(this.#size)
    this.#size = 0
    for (let part = 0; part < SORTED_PARTS; part++) yield* this.#runsOf(this.#sorted(order, part))
  }

  /** Writes the sort keys of a part of the words into `order`, which has space for all, in ascending order. */
  #sorted(order: Float64Array, part: number): Float64Array {
    let length = 0
    for (let position = 0; position < order.length; position++) {
      const word = (this.#words[position] ?? 0) + 2 ** 31
      if (Math.floor((word * SORTED_PARTS) / 2 ** 32) === part) order[length++] = word * POSITION + position
    }
    const sorted = order.subarray(0, length)
    sorted.sort()
    return sorted
  }

  *#runsOf(order: Float64Array): Generator<PostingRun> {
    const perRun = Math.floor(CHUNK_BYTES / POSTING_BYTES)
    for (let start = 0; start < order.length;) {
      const key = Math.floor((order[start] ?? 0) / POSITION)
      let end = start
      while (end < order.length && Math.floor((order[end] ?? 0) / POSITION) === key) end++
      for (let first = start; first < end; first += perRun) {
        const postings = new DataView(new ArrayBuffer(Math.min(perRun, end - first) * POSTING_BYTES))
        for (let index = 0; index * POSTING_BYTES < postings.byteLength; index++) {
          const position = (order[first + index] ?? 0) % POSITION
          postings.setUint32(index * POSTING_BYTES, this.#postings[position] ?? 0)
        }
        yield {
          word: key - 2 ** 31,
          firstOrdinal: ordinalOf(postings.getUint32(0)),
          preceding: first - start,
          postings: new Uint8Array(postings.buffer)
        }
      }
      start = end
    }
  }

  #reserve(added: number): void {
    const needed = this.#size + added
    if (needed <= this.#words.length) return
    const capacity = Math.max(needed, 2 * this.#words.length)
    const words = new Int32Array(capacity)
    const postings = new Uint32Array(capacity)
    words.set(this.#words)
    postings.set(this.#postings)
    this.#words = words
    this.#postings = postings
  }
}
