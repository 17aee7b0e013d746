/**
 * Whether a build output is up to date with its sources. Dependency-free JavaScript for Node 18 or later, because it
 * runs before anything is installed, at each start: usually it only compares the files' metadata, which takes a few
 * milliseconds.
 */
import { createHash } from "node:crypto"
import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs"
import { join, relative } from "node:path"

/** All files below a folder. `readdirSync` has a `recursive` option only from Node 18.17 and 20.1. */
export const filesBelow = (folder) =>
  readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const file = join(folder, entry.name)
    if (entry.isDirectory()) return filesBelow(file)
    return entry.isFile() ? [file] : []
  })

/** A file changed less than this long ago, in milliseconds, may change again without a new timestamp. */
const TIMESTAMP_RESOLUTION_MILLIS = 100

/**
 * A digest of the files' metadata. Every change of a file moves its change time, which programs cannot set. Undefined if a file has changed
 * just now.
 */
const digestMetadata = (root, files) => {
  const digest = createHash("sha256")
  let newest = 0
  for (const file of files) {
    const { ctimeMs, ino, mtimeMs, size } = statSync(file)
    newest = Math.max(newest, ctimeMs)
    digest.update(`${relative(root, file)}\0${size}\0${mtimeMs}\0${ctimeMs}\0${ino}\0`)
  }
  return Date.now() - newest < TIMESTAMP_RESOLUTION_MILLIS ? undefined : digest.digest("hex")
}

/** A digest of the files' names and contents, so that a fresh checkout of the same files is not rebuilt. */
const digestContents = (root, files) => {
  const digest = createHash("sha256")
  for (const file of files) digest.update(relative(root, file)).update("\0").update(readFileSync(file))
  return digest.digest("hex")
}

const readStamp = (file) => {
  try {
    return JSON.parse(readFileSync(file, "utf8"))
  } catch {
    return {}
  }
}

/** Records a build of the sources that `compareSources` described. */
export const writeStamp = (file, { contents, metadata }) =>
  writeFileSync(file, JSON.stringify({ contents, metadata }))

/**
 * Compares the sources with the stamp of the last build. Returns whether the build is up to date, and both digests for
 * `writeStamp`. They must be taken before a build: sources that change during it then make the next comparison fail.
 */
export const compareSources = (root, files, stampFile) => {
  const stamp = readStamp(stampFile)
  const metadata = digestMetadata(root, files)
  if (metadata !== undefined && stamp.metadata === metadata)
    return { contents: stamp.contents, metadata, isFresh: true }
  const contents = digestContents(root, files)
  const isFresh = stamp.contents === contents
  if (isFresh) {
    try {
      writeStamp(stampFile, { contents, metadata })
    } catch {
      // A checkout that cannot be written to is compared by its contents each time.
    }
  }
  return { contents, metadata, isFresh }
}
