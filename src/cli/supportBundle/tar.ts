import { gzipSync } from "node:zlib"

/** Blocks of a tar archive, in bytes. */
const BLOCK = 512

/** The longest name of a file in the format without extensions. */
const MAX_NAME = 100

/** A file of an archive. */
export interface ArchiveFile {
  readonly name: string
  readonly text: string
}

const octal = (value: number, width: number): string => `${value.toString(8).padStart(width - 1, "0")}\0`

/** The header of a regular file that only its owner may read (POSIX ustar). */
const headerOf = (name: string, size: number, seconds: number): Buffer => {
  if (Buffer.byteLength(name) > MAX_NAME) throw new RangeError(`${name} is too long for a tar archive`)
  const header = Buffer.alloc(BLOCK)
  header.write(name, 0)
  header.write(octal(0o600, 8), 100)
  header.write(octal(0, 8), 108)
  header.write(octal(0, 8), 116)
  header.write(octal(size, 12), 124)
  header.write(octal(seconds, 12), 136)
  // The checksum is computed with blanks in its place.
  header.write(" ".repeat(8), 148)
  header.write("0", 156)
  header.write("ustar\0", 257)
  header.write("00", 263)
  const sum = header.reduce((total, byte) => total + byte, 0)
  header.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148)
  return header
}

/** A compressed tar archive of text files. Written here, because Node.js has gzip but no tar, and a header is one block. */
export const makeArchive = (files: ReadonlyArray<ArchiveFile>, millis: number): Buffer => {
  const blocks = files.flatMap(({ name, text }) => {
    const content = Buffer.from(text)
    const padding = Buffer.alloc((BLOCK - (content.length % BLOCK)) % BLOCK)
    return [headerOf(name, content.length, Math.floor(millis / 1_000)), content, padding]
  })
  // Two empty blocks end the archive.
  return gzipSync(Buffer.concat([...blocks, Buffer.alloc(2 * BLOCK)]))
}
