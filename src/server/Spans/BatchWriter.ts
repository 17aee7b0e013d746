import { constants, crc32, deflateRawSync } from "node:zlib"

/**
 * Bytes that are compressed at once: a fifth of a millisecond on the event loop. Larger pieces compress little better, and a thread for
 * each costs more than the work.
 */
const PIECE_BYTES = 128 * 1024

/** A gzip header (RFC 1952, 2.3) without a name or a time: deflate, the fastest level, an unknown system. */
const GZIP_HEADER = Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 0xff])

const COMMA = 0x2c

/** Where pieces are put together: one place for all, since that takes no turn of the event loop. */
const desk = Buffer.allocUnsafeSlow(2 * PIECE_BYTES)

/**
 * One request as it grows, compressed piece by piece as one gzip member: so what waits takes a tenth of its memory, and nothing is left to
 * do at the end but the last piece.
 */
export class BatchWriter {
  readonly #before: string
  readonly #after: string
  readonly #limit: number
  readonly #pieces: Array<Uint8Array> = [GZIP_HEADER]
  /** Spans that are not compressed yet, and the most bytes of the next piece. */
  #texts: Array<string> = []
  #waiting: number
  /** Bytes of the pieces, before they were compressed and after. */
  #length = 0
  #compressed = 0
  #checksum = 0
  #spans = 0

  /** Between the two halves of a request's envelope; `limit`: the most bytes of the whole, not compressed. */
  constructor([before, after]: readonly [string, string], limit: number) {
    this.#before = before
    this.#after = after
    this.#limit = limit
    this.#waiting = Buffer.byteLength(before) + Buffer.byteLength(after)
  }

  /** Spans so far. */
  get spans(): number {
    return this.#spans
  }

  /** Bytes that it takes in memory. */
  get held(): number {
    return this.#waiting + this.#compressed
  }

  /** Takes a span in, if there is room; whether there was. */
  append(text: string): boolean {
    const bytes = Buffer.byteLength(text) + 1
    if (this.#length + this.#waiting + bytes > this.#limit) return false
    this.#texts.push(text)
    this.#spans++
    this.#waiting += bytes
    if (this.#waiting >= PIECE_BYTES) this.#compress(false)
    return true
  }

  /** The request, compressed. Nothing is added to it any more. */
  finish(): Uint8Array {
    this.#compress(true)
    const trailer = Buffer.alloc(8)
    trailer.writeUInt32LE(this.#checksum, 0)
    trailer.writeUInt32LE(this.#length, 4)
    return Buffer.concat([...this.#pieces, trailer])
  }

  #compress(last: boolean): void {
    const room = this.#waiting <= desk.length ? desk : Buffer.allocUnsafe(this.#waiting)
    let end = 0
    let between = this.#length > 0
    if (!between) end = room.write(this.#before)
    for (const text of this.#texts) {
      if (between) room[end++] = COMMA
      end += room.write(text, end)
      between = true
    }
    if (last) end += room.write(this.#after, end)
    const piece = room.subarray(0, end)
    const compressed = deflateRawSync(piece, {
      level: constants.Z_BEST_SPEED,
      finishFlush: last ? constants.Z_FINISH : constants.Z_SYNC_FLUSH
    })
    this.#checksum = crc32(piece, this.#checksum)
    this.#length += end
    // A copy: what zlib gives is part of a larger piece of memory.
    this.#pieces.push(new Uint8Array(compressed))
    this.#compressed += compressed.length
    this.#texts = []
    this.#waiting = Buffer.byteLength(this.#after)
  }
}
