/**
 * Tar archives (POSIX ustar with pax headers), written so that equal trees give equal bytes: sorted, with the time zero and without names
 * of accounts.
 */
import { type FileEntry, type FileTree, withParents } from "./FileTree.ts"

const BLOCK = 512

/** The longest path, and the longest target of a link, of a header without extensions. */
const MAX_NAME = 100

const TYPES = { file: "0", symlink: "2", directory: "5" } as const

const octal = (value: number, width: number): string => `${value.toString(8).padStart(width - 1, "0")}\0`

const padded = (content: Uint8Array): ReadonlyArray<Uint8Array> => [
  content,
  new Uint8Array((BLOCK - (content.length % BLOCK)) % BLOCK)
]

interface Header {
  readonly name: string
  readonly mode: number
  readonly owner: number
  readonly size: number
  readonly type: string
  readonly target: string
}

const headerOf = ({ mode, name, owner, size, target, type }: Header): Uint8Array => {
  const header = Buffer.alloc(BLOCK)
  // Only the extended header before has the whole of a longer text.
  header.write(name, 0, MAX_NAME)
  header.write(octal(mode, 8), 100)
  header.write(octal(owner, 8), 108)
  header.write(octal(owner, 8), 116)
  header.write(octal(size, 12), 124)
  header.write(octal(0, 12), 136)
  // The checksum is computed with blanks in its place.
  header.write(" ".repeat(8), 148)
  header.write(type, 156)
  header.write(target, 157, MAX_NAME)
  header.write("ustar\u000000", 257)
  const sum = header.reduce((total, byte) => total + byte, 0)
  header.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148)
  return header
}

/** A record of an extended header, `LENGTH key=value`, whose length counts itself. */
const paxRecord = (key: string, value: string): string => {
  const rest = ` ${key}=${value}\n`
  const bytes = Buffer.byteLength(rest)
  let length = bytes + String(bytes).length
  if (bytes + String(length).length !== length) length = bytes + String(length).length
  return `${length}${rest}`
}

/** The header of an entry, after an extended header if the path or the target is long. */
const headersOf = (path: string, entry: FileEntry): ReadonlyArray<Uint8Array> => {
  const name = entry.kind === "directory" ? `${path}/` : path
  const target = entry.kind === "symlink" ? entry.target : ""
  const isLong = (text: string) => Buffer.byteLength(text) > MAX_NAME
  const records = Buffer.from(
    (isLong(name) ? paxRecord("path", name) : "") + (isLong(target) ? paxRecord("linkpath", target) : "")
  )
  const { mode, owner = 0 } = entry
  const size = entry.kind === "file" ? entry.content.length : 0
  const own = headerOf({ name, mode, owner, size, type: TYPES[entry.kind], target })
  if (records.length === 0) return [own]
  const extended = headerOf({
    ...{ name: "extended", mode: 0o644, owner: 0 },
    ...{ size: records.length, type: "x", target: "" }
  })
  return [extended, ...padded(records), own]
}

/** An archive of a tree and of the directories that contain its files. */
export const writeTar = (tree: FileTree): Buffer =>
  Buffer.concat([
    ...[...withParents(tree)].flatMap(([path, entry]) => [
      ...headersOf(path, entry),
      ...(entry.kind === "file" ? padded(entry.content) : [])
    ]),
    // Two empty blocks end the archive.
    new Uint8Array(2 * BLOCK)
  ])

const KINDS: Readonly<Record<string, FileEntry["kind"]>> = {
  "": "file",
  "\0": "file",
  "0": "file",
  "2": "symlink",
  "5": "directory"
}

const textAt = (bytes: Buffer, start: number, length: number): string => {
  const field = bytes.subarray(start, start + length)
  const end = field.indexOf(0)
  return field.toString("utf8", 0, end < 0 ? length : end)
}

const numberAt = (bytes: Buffer, start: number, length: number): number =>
  Number.parseInt(textAt(bytes, start, length).trim() || "0", 8)

/** The members of an extended header. */
const parsePax = (content: Buffer): Readonly<Record<string, string>> => {
  const members: Record<string, string> = {}
  for (let at = 0; at < content.length;) {
    const blank = content.indexOf(" ", at)
    const length = Number.parseInt(content.toString("utf8", at, blank), 10)
    if (!(length > 0)) throw new Error("the tar archive has an invalid extended header")
    const record = content.toString("utf8", blank + 1, at + length - 1)
    const equals = record.indexOf("=")
    members[record.slice(0, equals)] = record.slice(equals + 1)
    at += length
  }
  return members
}

/** The path from the root: without `./` before and `/` after it. */
const normalPath = (path: string): string => path.replace(/^(?:\.?\/)+/, "").replace(/\/+$/, "")

/** Reads an archive of files, directories, symbolic and hard links; of hard links the content is repeated. */
export const readTar = (bytes: Buffer): FileTree => {
  const tree = new Map<string, FileEntry>()
  let longName: string | undefined
  let longTarget: string | undefined
  for (let at = 0; at + BLOCK <= bytes.length;) {
    const header = bytes.subarray(at, at + BLOCK)
    if (header[0] === 0) break
    const size = numberAt(header, 124, 12)
    const content = bytes.subarray(at + BLOCK, at + BLOCK + size)
    if (content.length !== size) throw new Error("the tar archive is truncated")
    at += BLOCK + Math.ceil(size / BLOCK) * BLOCK
    const type = textAt(header, 156, 1)
    if (type === "L") longName = textAt(content, 0, size)
    else if (type === "K") longTarget = textAt(content, 0, size)
    else if (type === "x")
      ({ path: longName = longName, linkpath: longTarget = longTarget } = parsePax(content))
    else if (type !== "g") {
      const prefix = textAt(header, 345, 155)
      const isUstar = textAt(header, 257, 6) === "ustar"
      const short = textAt(header, 0, 100)
      const path = normalPath(longName ?? (isUstar && prefix !== "" ? `${prefix}/${short}` : short))
      const target = longTarget ?? textAt(header, 157, 100)
      longName = longTarget = undefined
      const facts = { mode: numberAt(header, 100, 8), owner: numberAt(header, 108, 8) }
      const kind = KINDS[type]
      if (type === "1") {
        const linked = tree.get(normalPath(target))
        if (linked === undefined)
          throw new Error(`the tar archive links ${path} to ${target}, which it lacks`)
        tree.set(path, linked)
      } else if (kind === "file") tree.set(path, { kind, ...facts, content })
      else if (kind === "symlink") tree.set(path, { kind, ...facts, target })
      else if (kind === "directory") {
        if (path !== "") tree.set(path, { kind, ...facts })
      } else throw new Error(`the tar archive has ${path}, of the unknown type ${JSON.stringify(type)}`)
    }
  }
  return tree
}
