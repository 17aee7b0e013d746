/** Bytes that a batch begins with, which must be few: every organization that is at work has one. It grows by doubling. */
const FIRST_BYTES = 4 * 1024

/**
 * One request as it grows: the spans' texts between the two halves of their envelope, as bytes from the start. So a text is copied once, and
 * its size needs no look of its own.
 */
export class BatchWriter {
  readonly #after: Buffer
  readonly #limit: number
  #bytes: Buffer
  #end: number
  #spans = 0

  /** `limit`: the most bytes of the whole request. */
  constructor([before, after]: readonly [string, string], limit: number) {
    this.#after = Buffer.from(after)
    this.#limit = limit
    this.#bytes = Buffer.allocUnsafe(FIRST_BYTES)
    this.#end = this.#bytes.write(before)
  }

  /** Spans so far. */
  get spans(): number {
    return this.#spans
  }

  /** Bytes so far, with the end of the envelope. */
  get size(): number {
    return this.#end + this.#after.length
  }

  /** Writes a span, if there is room; whether there was. */
  append(text: string): boolean {
    // No UTF-16 unit takes more than three bytes; only where that might be too much it is counted.
    const most = text.length * 3 + 1
    const left = this.#limit - this.size
    if (most > left && Buffer.byteLength(text) + 1 > left) return false
    this.#grow(Math.min(most, left))
    if (this.#spans > 0) this.#end += this.#bytes.write(",", this.#end, "latin1")
    this.#end += this.#bytes.write(text, this.#end)
    this.#spans++
    return true
  }

  /** The request. Nothing is written to it any more. */
  finish(): Uint8Array {
    this.#grow(0)
    this.#after.copy(this.#bytes, this.#end)
    return this.#bytes.subarray(0, this.size)
  }

  #grow(room: number): void {
    const needed = this.size + room
    if (needed <= this.#bytes.length) return
    const grown = Buffer.allocUnsafe(Math.max(needed, this.#bytes.length * 2))
    this.#bytes.copy(grown, 0, 0, this.#end)
    this.#bytes = grown
  }
}
