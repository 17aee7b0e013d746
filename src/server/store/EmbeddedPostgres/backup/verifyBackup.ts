import { Effect, Option, Schema } from "effect"
import { readdir, readFile, realpath, stat } from "node:fs/promises"
import path from "node:path"
import { errnoCode } from "../../errnoCode.ts"
import { BackupFailed, tryFiles } from "./BackupFailed.ts"
import {
  AnyManifestJson,
  BACKUP_FORMAT,
  type BackupManifest,
  CHECKSUMS_FILE,
  CLUSTER_DIRECTORY,
  isBackupPath,
  MANIFEST_FILE,
  ManifestJson,
  parseChecksums,
  SIGNATURE_FILE
} from "./BackupManifest.ts"
import { digestOf } from "./copyFile.ts"

/** A backup whose files match its manifest. */
export interface VerifiedBackup {
  readonly directory: string
  readonly manifest: BackupManifest
  /** Checksums of the cluster's files, by their paths in the backup. */
  readonly checksums: ReadonlyMap<string, string>
}

/** The largest manifest and list of checksums, in bytes: a cluster has some thousand files. */
const MAX_LIST_BYTES = 64 * 1024 * 1024

const readList = async (directory: string, name: string): Promise<string> => {
  const file = path.join(directory, name)
  try {
    if ((await stat(file)).size > MAX_LIST_BYTES) {
      throw new BackupFailed({ phrase: `${file} is too large: it was altered. Use another backup` })
    }
    return await readFile(file, "utf8")
  } catch (cause) {
    if (errnoCode(cause) !== "ENOENT" && errnoCode(cause) !== "ENOTDIR") throw cause
    throw new BackupFailed({
      phrase: `${directory} is not a complete backup, because it has no ${name}: name a directory that countersign backup printed`
    })
  }
}

const altered = (what: string) =>
  new BackupFailed({ phrase: `${what}: the backup was altered or is incomplete. Use another backup` })

/** The files below a directory, by their paths in it. Anything but files and directories is refused. */
const listFiles = async (directory: string): Promise<ReadonlyArray<string>> => {
  const files: Array<string> = []
  const visit = async (relative: string): Promise<void> => {
    for (const entry of await readdir(path.join(directory, relative), { withFileTypes: true })) {
      const name = relative === "" ? entry.name : `${relative}/${entry.name}`
      if (entry.isDirectory()) await visit(name)
      else if (entry.isFile()) files.push(name)
      else throw altered(`${path.join(directory, name)} is neither a file nor a directory`)
    }
  }
  await visit("")
  return files
}

/** Decodes a manifest, and refuses other formats by name. */
const decodeManifest = Effect.fnUntraced(function* (directory: string, text: string) {
  const any = Schema.decodeUnknownOption(AnyManifestJson)(text)
  if (Option.isSome(any) && any.value.format !== BACKUP_FORMAT) {
    return yield* new BackupFailed({
      phrase: `${directory} has format ${any.value.format}, but this version of Countersign reads format ${BACKUP_FORMAT}: restore it with the version that made it`
    })
  }
  const manifest = Schema.decodeUnknownOption(ManifestJson)(text)
  if (Option.isNone(manifest) || !manifest.value.directories.every(isBackupPath)) {
    return yield* altered(`${path.join(directory, MANIFEST_FILE)} is not valid`)
  }
  return manifest.value
})

/** Fails unless the checksums have a signature by a master key of this installation: a program that can write to a backup can change them too. */
const requireSignature = Effect.fnUntraced(function* (
  directory: string,
  sums: string,
  isSigned: (text: string, signature: string) => boolean
) {
  const file = path.join(directory, SIGNATURE_FILE)
  const signature = yield* tryFiles(`reading ${file}`, async () => {
    try {
      return (await readFile(file, "utf8")).trim()
    } catch (cause) {
      if (errnoCode(cause) === "ENOENT") return undefined
      throw cause
    }
  })
  if (signature !== undefined && isSigned(sums, signature)) return
  const [, key] = /^([0-9a-f]{16})\./.exec(signature ?? "") ?? []
  const why =
    signature === undefined
      ? `${directory} has no signature`
      : `${directory} is not signed by a master key of this installation${key === undefined ? "" : ` (it names ${key})`}`
  return yield* new BackupFailed({
    phrase: `${why}: it was altered, or made with another key. Name its key with --master-key, or add --unsigned if nobody else could write where it was stored`
  })
})

/**
 * Verifies the signature of a backup's checksums, every file against them, and that no file is missing or additional. Without a signature
 * (`isSigned` is undefined) it detects damage, not an attacker, who can change the checksums too. Writes nothing.
 */
export const verifyBackup = Effect.fn("EmbeddedPostgres.verifyBackup")(function* (
  requested: string,
  isSigned: ((text: string, signature: string) => boolean) | undefined,
  /** Called with the verified bytes and the bytes of all files. */
  onProgress: (done: number, total: number) => void
): Effect.fn.Return<VerifiedBackup, BackupFailed> {
  const reading = `reading the backup ${requested}`
  const directory = yield* tryFiles(reading, async () => {
    try {
      return await realpath(requested)
    } catch (cause) {
      if (errnoCode(cause) !== "ENOENT") throw cause
      throw new BackupFailed({
        phrase: `${requested} does not exist: name a directory that countersign backup printed`
      })
    }
  })
  const { listed, sums, text } = yield* tryFiles(reading, async () => ({
    sums: await readList(directory, CHECKSUMS_FILE),
    text: await readList(directory, MANIFEST_FILE),
    listed: await listFiles(directory)
  }))
  const all = parseChecksums(sums)
  if (all === undefined) return yield* altered(`${path.join(directory, CHECKSUMS_FILE)} is not valid`)
  if (isSigned !== undefined) yield* requireSignature(directory, sums, isSigned)
  const manifest = yield* decodeManifest(directory, text)
  const expected = new Set([...all.keys(), CHECKSUMS_FILE, SIGNATURE_FILE])
  const additional = listed.find((file) => !expected.has(file))
  if (additional !== undefined)
    return yield* altered(`${path.join(directory, additional)} is not in ${CHECKSUMS_FILE}`)
  const present = new Set(listed)
  const missing = [...expected, MANIFEST_FILE].find((file) => file !== SIGNATURE_FILE && !present.has(file))
  if (missing !== undefined) return yield* altered(`${path.join(directory, missing)} is missing`)
  const checksums = new Map([...all].filter(([file]) => file.startsWith(`${CLUSTER_DIRECTORY}/`)))
  if (!all.has(MANIFEST_FILE) || all.size !== checksums.size + 1 || manifest.files !== checksums.size) {
    return yield* altered(
      `${path.join(directory, CHECKSUMS_FILE)} does not list the ${manifest.files} files of the manifest`
    )
  }
  yield* tryFiles(reading, async (signal) => {
    let total = 0
    for (const file of all.keys()) total += (await stat(path.join(directory, file))).size
    let done = 0
    for (const [file, digest] of all) {
      const found = await digestOf(path.join(directory, file), {
        signal,
        onBytes: (bytes) => onProgress((done += bytes), total)
      })
      if (found !== digest) throw altered(`${path.join(directory, file)} differs from its checksum`)
    }
  })
  return { directory, manifest, checksums }
})
