/**
 * The file of an exported organization: lines of JSON, compressed (zstd) and encrypted for the installation that imports it.
 *
 *     "countersign organization 1\n" ‖ transfer key (56) ‖ ephemeral public key (32) ‖ encrypted chunks
 */
import { Effect, Option, Schema } from "effect"
import { once } from "node:events"
import {
  createReadStream,
  createWriteStream,
  existsSync,
  fstatSync,
  openSync,
  rmSync,
  statSync
} from "node:fs"
import { open, rename } from "node:fs/promises"
import path from "node:path"
import { pipeline } from "node:stream/promises"
import type { Readable, Writable } from "node:stream"
import { constants, createZstdCompress, createZstdDecompress } from "node:zlib"
import type { SecretBox } from "../../secrets/SecretBox.ts"
import { decryptChunks, encryptChunks, FileNotAuthentic } from "./sealedChunks.ts"
import { openWith, sealFor, TRANSFER_KEY_BYTES } from "./TransferKey.ts"

const MAGIC = Buffer.from("countersign organization 1\n")
const EPHEMERAL_BYTES = 32
const HEADER_BYTES = MAGIC.length + TRANSFER_KEY_BYTES + EPHEMERAL_BYTES

/** The longest line in characters: a row of the service has at most 128 MiB, and escapes may double it. */
const MAX_LINE = 256 * 2 ** 20

/** Lines are gathered to about this many characters before they are compressed. */
const BLOCK = 64 * 1024

/** The file is no export, or one for another installation. */
export class FileRefused extends Schema.TaggedError<FileRefused>()("FileRefused", {
  message: Schema.String
}) {}

/** The file cannot be read or written, such as on a full disk. */
export class FileUnavailable extends Schema.TaggedError<FileUnavailable>()("FileUnavailable", {
  message: Schema.String,
  cause: Schema.Defect()
}) {}

/** Runs a step on a file. */
export const tryFile = <A>(
  run: () => PromiseLike<A>
): Effect.Effect<A, FileRefused | FileNotAuthentic | FileUnavailable> =>
  Effect.tryPromise({
    try: run,
    catch: (cause) =>
      cause instanceof FileRefused || cause instanceof FileNotAuthentic
        ? cause
        : new FileUnavailable({
            message: `The file cannot be read or written: ${cause instanceof Error ? cause.message : String(cause)}`,
            cause
          })
  })

/** Writes the lines of a file. */
export interface LineWriter {
  /** Adds a line. Resolves when there is space for the next one. */
  readonly write: (line: string) => Promise<void>
  /** Ends the file, and resolves when it is on the disk: the commands that follow may delete all other copies. */
  readonly end: () => Promise<void>
  /** Stops writing, and removes the incomplete file. Without effect on a complete file. */
  readonly abort: () => void
  /** Bytes written so far. */
  readonly bytes: () => number
}

/** Syncs the directory that a file was created in. Windows has no such call. */
const syncEntry = async (file: string): Promise<void> => {
  if (process.platform === "win32") return
  const directory = await open(path.dirname(file), "r")
  try {
    await directory.sync()
  } finally {
    await directory.close()
  }
}

/** A file that gets its name when it is complete. */
interface PartialFile {
  readonly output: Writable
  /** Renames it. Throws if another command has replaced it meanwhile. */
  readonly complete: () => Promise<void>
  readonly remove: () => void
}

/**
 * Creates `<file>.partial`. Replaces one that a killed command left, so that the command can be repeated with the same name; throws if the file
 * itself exists.
 */
const createPartial = (file: string): PartialFile => {
  if (existsSync(file)) throw new Error("it exists already. Remove it, or write to another file")
  const partial = `${file}.partial`
  rmSync(partial, { force: true })
  const fd = openSync(partial, "wx", 0o600)
  const { ino } = fstatSync(fd)
  const isOurs = () => statSync(partial, { throwIfNoEntry: false })?.ino === ino
  return {
    output: createWriteStream(partial, { fd, flush: true }),
    complete: async () => {
      if (!isOurs()) throw new Error(`another command has replaced or removed ${partial}`)
      await rename(partial, file)
      await syncEntry(file)
    },
    remove: () => {
      if (isOurs()) rmSync(partial, { force: true })
    }
  }
}

/** How long no byte may be written, in milliseconds: the reader of a pipe hangs, and the command has locked tables meanwhile. */
const MAX_STALL_MILLIS = 5 * 60_000

/** Options of a writer. */
export interface WriterOptions {
  /** How long no byte may be written, in milliseconds. Default five minutes. */
  readonly maxStallMillis?: number
}

/** Writes an export to a stream, that only the owner of the transfer key can read. `complete` runs when all bytes are written. */
export const makeWriter = (
  output: Writable,
  transferKey: Uint8Array,
  {
    complete = async () => undefined,
    ends,
    maxStallMillis = MAX_STALL_MILLIS,
    remove = () => undefined
  }: WriterOptions & Partial<Omit<PartialFile, "output">> & { readonly ends: boolean }
): LineWriter => {
  const { ephemeral, key } = sealFor(transferKey)
  const header = Buffer.concat([MAGIC, transferKey, ephemeral])
  const compress = createZstdCompress({ params: { [constants.ZSTD_c_compressionLevel]: 3 } })
  let bytes = header.length
  const encrypt = encryptChunks(key, header, (length) => void (bytes += length))
  output.write(header)
  const finished = pipeline(compress, encrypt, output, { end: ends })
  // Reported by the write or the end that follows.
  let failure: unknown
  finished.catch((error: unknown) => void (failure = error))
  let isComplete = false
  /** Waits for an event of the stream, as long as bytes are written meanwhile. */
  const whileWriting = async (event: PromiseLike<unknown>) => {
    let written = bytes
    let timer: NodeJS.Timeout | undefined
    const stalled = new Promise<never>((_, reject) => {
      timer = setInterval(() => {
        if (bytes === written) {
          reject(
            new Error(
              `no byte could be written for ${Math.round(maxStallMillis / 60_000)} minutes. Does what reads the pipe still run?`
            )
          )
        }
        written = bytes
      }, maxStallMillis)
    })
    try {
      await Promise.race([event, finished, stalled])
    } finally {
      clearInterval(timer)
    }
  }
  let block = ""
  const flush = async () => {
    if (failure !== undefined) throw failure
    const text = block
    block = ""
    if (!compress.write(text)) await whileWriting(once(compress, "drain"))
  }
  return {
    write: async (line) => {
      block += `${line}\n`
      if (block.length >= BLOCK) await flush()
    },
    end: async () => {
      if (block !== "") await flush()
      compress.end()
      await whileWriting(finished)
      await complete()
      isComplete = true
    },
    abort: () => {
      if (isComplete) return
      compress.destroy()
      remove()
    },
    bytes: () => bytes
  }
}

/**
 * Creates a file, or opens standard output for `-`, to write an export. A file has the name `<file>.partial` until it is complete. Throws if the
 * file exists or cannot be created.
 */
export const openWriter = (
  file: string,
  transferKey: Uint8Array,
  options: WriterOptions = {}
): LineWriter => {
  if (file === "-") return makeWriter(process.stdout, transferKey, { ...options, ends: false })
  const { output, ...partial } = createPartial(file)
  return makeWriter(output, transferKey, { ...options, ...partial, ends: true })
}

/** Reads exactly `length` bytes, and leaves the others in the stream. */
const readBytes = async (input: Readable, length: number): Promise<Buffer> => {
  const chunks: Array<Buffer> = []
  let size = 0
  const unread: AsyncIterable<Buffer> = input.iterator({ destroyOnReturn: false })
  for await (const chunk of unread) {
    chunks.push(chunk)
    size += chunk.length
    if (size >= length) break
  }
  if (size < length) throw new FileNotAuthentic()
  const all = Buffer.concat(chunks)
  if (size > length) input.unshift(all.subarray(length))
  return all.subarray(0, length)
}

/** Splits text into lines. Searches each chunk once, so that the time for a long line is linear. */
async function* linesOf(input: AsyncIterable<Buffer>): AsyncGenerator<string> {
  const decoder = new TextDecoder("utf-8", { fatal: true })
  let pending: Array<string> = []
  let length = 0
  for await (const chunk of input) {
    const text = decoder.decode(chunk, { stream: true })
    let start = 0
    for (let end = text.indexOf("\n"); end >= 0; end = text.indexOf("\n", start)) {
      pending.push(text.slice(start, end))
      yield pending.join("")
      pending = []
      length = 0
      start = end + 1
    }
    if (start < text.length) pending.push(text.slice(start))
    length += text.length - start
    if (length > MAX_LINE) throw new FileRefused({ message: "A line of the file is too long." })
  }
  if (pending.join("") + decoder.decode() !== "") throw new FileNotAuthentic()
}

/** The lines of a file, or of standard input for `-`, that was exported for a transfer key of this installation. */
export async function* readFile(file: string, box: SecretBox["Service"], onBytes?: (bytes: number) => void) {
  const input: Readable = file === "-" ? process.stdin : createReadStream(file)
  const header = await readBytes(input, HEADER_BYTES)
  if (!header.subarray(0, MAGIC.length).equals(MAGIC)) {
    throw new FileRefused({ message: "The file is no export of an organization, or one of another version." })
  }
  const transferKey = header.subarray(MAGIC.length, MAGIC.length + TRANSFER_KEY_BYTES)
  const key = openWith(box, transferKey, header.subarray(HEADER_BYTES - EPHEMERAL_BYTES))
  if (Option.isNone(key)) {
    throw new FileRefused({
      message:
        "The file was exported for another installation, or for a master key that is not configured here. " +
        "Export it for a key that countersign org prepare prints here."
    })
  }
  let bytes = HEADER_BYTES
  const decrypt = decryptChunks(key.value, header, (length) => onBytes?.((bytes += length)))
  const decompress = createZstdDecompress()
  const finished = pipeline(input, decrypt, decompress)
  // Rejects the iteration below with the same error.
  finished.catch(() => undefined)
  try {
    yield* linesOf(decompress)
  } catch (error) {
    throw error instanceof FileRefused ? error : new FileNotAuthentic()
  }
}
