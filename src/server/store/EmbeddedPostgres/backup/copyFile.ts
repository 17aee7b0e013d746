import { createHash } from "node:crypto"
import { createWriteStream } from "node:fs"
import { open } from "node:fs/promises"
import { Readable } from "node:stream"
import { pipeline } from "node:stream/promises"
import { constants, createGunzip, createGzip } from "node:zlib"

/** Bytes that are read at a time, at most. */
const CHUNK_BYTES = 1024 * 1024

/**
 * Reads a file up to the size that it had when it was opened. A running server may append to it faster than it is read; the write-ahead
 * log of a backup has the rest. Buffers have the size of the rest if that is less than a chunk: a cluster has a thousand small
 * files, and allocating a chunk for each takes several times as long as reading it.
 */
const readChunks = async function* (file: string, signal?: AbortSignal): AsyncGenerator<Buffer, void> {
  const handle = await open(file)
  try {
    let { size: rest } = await handle.stat()
    while (rest > 0) {
      signal?.throwIfAborted()
      const chunk = Buffer.allocUnsafe(Math.min(CHUNK_BYTES, rest))
      const { bytesRead } = await handle.read(chunk)
      // The server truncated the file.
      if (bytesRead === 0) return
      rest -= bytesRead
      yield chunk.subarray(0, bytesRead)
    }
  } finally {
    await handle.close()
  }
}

/** The checksum and the number of stored bytes, and the size of the content without compression. */
export interface CopiedFile {
  readonly digest: string
  readonly storedBytes: number
  readonly bytes: number
}

type Step = (source: AsyncIterable<Buffer>) => AsyncIterable<Buffer>

const observe = (onChunk: (chunk: Buffer) => void): Step =>
  async function* (source) {
    for await (const chunk of source) {
      onChunk(chunk)
      yield chunk
    }
  }

/** Options of {@link copyFile}. */
export interface CopyOptions {
  /** `compress` and `expand` convert to and from gzip. */
  readonly conversion: "none" | "compress" | "expand"
  readonly signal?: AbortSignal
  /** Called with the bytes of content that were copied. */
  readonly onBytes?: (bytes: number) => void
}

/**
 * Copies a file, or content in memory, to a new file with mode 0600, and syncs it to disk. The checksum is of the stored bytes: of the compressed ones, on either
 * side.
 */
export const copyFile = async (
  from: string | Buffer,
  to: string,
  options: CopyOptions
): Promise<CopiedFile> => {
  const { conversion, onBytes, signal } = options
  const hash = createHash("sha256")
  let bytes = 0
  let storedBytes = 0
  const digest = observe((chunk) => {
    storedBytes += chunk.length
    hash.update(chunk)
  })
  const count = observe((chunk) => {
    bytes += chunk.length
    onBytes?.(chunk.length)
  })
  const source = typeof from === "string" ? readChunks(from, signal) : Readable.from([from])
  const target = createWriteStream(to, { flags: "wx", mode: 0o600, flush: true })
  if (conversion === "compress") {
    // The lowest level is several times faster than the default, and the service runs beside the backup.
    await pipeline(source, count, createGzip({ level: constants.Z_BEST_SPEED }), digest, target, { signal })
  } else if (conversion === "expand") {
    await pipeline(source, digest, createGunzip(), count, target, { signal })
  } else await pipeline(source, count, digest, target, { signal })
  return { digest: hash.digest("hex"), storedBytes, bytes }
}

/** The checksum of a file. */
export const digestOf = async (
  file: string,
  options: Pick<CopyOptions, "signal" | "onBytes">
): Promise<string> => {
  const hash = createHash("sha256")
  for await (const chunk of readChunks(file, options.signal)) {
    hash.update(chunk)
    options.onBytes?.(chunk.length)
  }
  return hash.digest("hex")
}
