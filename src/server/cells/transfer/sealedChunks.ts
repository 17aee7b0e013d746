/**
 * Encryption of a stream in chunks (the STREAM construction, as in age): AES-256-GCM, with the number of the chunk and a mark on the last
 * one as the nonce. So a changed, moved, missing or added chunk, and a file that was cut anywhere, cannot be decrypted. The key is used for
 * one file only.
 */
import { createCipheriv, createDecipheriv } from "node:crypto"
import { Transform } from "node:stream"

/** Bytes of a chunk before encryption. */
export const CHUNK_BYTES = 64 * 1024
const TAG_BYTES = 16
const options = { authTagLength: TAG_BYTES }

/** The file was changed or cut, or was sealed with another key. */
export class FileNotAuthentic extends Error {
  override readonly name = "FileNotAuthentic"
  override readonly message =
    "The file is damaged or incomplete, or was exported for another transfer key. Nothing was imported. Export it again."
}

const nonceOf = (number: number, isLast: boolean): Buffer => {
  const nonce = Buffer.alloc(12)
  nonce.writeUIntBE(number, 5, 6)
  nonce[11] = isLast ? 1 : 0
  return nonce
}

/** Collects bytes and passes them on in chunks of `size`; the last is passed on at the end, and may be shorter. */
const inChunks = (
  size: number,
  encode: (chunk: Buffer, number: number, isLast: boolean) => Buffer
): Transform => {
  let pending: Array<Buffer> = []
  let length = 0
  let number = 0
  return new Transform({
    transform(data: Buffer, _, done) {
      pending.push(data)
      length += data.length
      if (length <= size) return done()
      try {
        let all = Buffer.concat(pending, length)
        // One byte more than a chunk: else it may be the last.
        while (all.length > size) {
          this.push(encode(all.subarray(0, size), number++, false))
          all = all.subarray(size)
        }
        pending = [all]
        length = all.length
        done()
      } catch {
        done(new FileNotAuthentic())
      }
    },
    flush(done) {
      try {
        done(null, encode(Buffer.concat(pending, length), number, true))
      } catch {
        done(new FileNotAuthentic())
      }
    }
  })
}

/** Encrypts a stream. `header` is authenticated with each chunk. */
export const encryptChunks = (
  key: Uint8Array,
  header: Uint8Array,
  onBytes: (length: number) => void
): Transform =>
  inChunks(CHUNK_BYTES, (chunk, number, isLast) => {
    onBytes(chunk.length + TAG_BYTES)
    const cipher = createCipheriv("aes-256-gcm", key, nonceOf(number, isLast), options)
    cipher.setAAD(header)
    const text = cipher.update(chunk)
    cipher.final()
    return Buffer.concat([text, cipher.getAuthTag()])
  })

/** Decrypts a stream of {@link encryptChunks}. A chunk is passed on after its tag was verified. */
export const decryptChunks = (
  key: Uint8Array,
  header: Uint8Array,
  onBytes: (length: number) => void
): Transform =>
  inChunks(CHUNK_BYTES + TAG_BYTES, (chunk, number, isLast) => {
    onBytes(chunk.length)
    if (chunk.length < TAG_BYTES) throw new FileNotAuthentic()
    const decipher = createDecipheriv("aes-256-gcm", key, nonceOf(number, isLast), options)
    decipher.setAAD(header)
    decipher.setAuthTag(chunk.subarray(chunk.length - TAG_BYTES))
    const text = decipher.update(chunk.subarray(0, chunk.length - TAG_BYTES))
    decipher.final()
    return text
  })
