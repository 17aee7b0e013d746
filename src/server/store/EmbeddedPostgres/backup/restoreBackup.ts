import { Effect } from "effect"
import { chown, lstat, mkdir, readdir, rename, rm } from "node:fs/promises"
import path from "node:path"
import { latestMigration } from "../../Database/schemaVersion.ts"
import { errnoCode } from "../../errnoCode.ts"
import { syncDirectory } from "../../syncDirectory.ts"
import type { Account } from "../Account.ts"
import type { Binaries } from "../Binaries.ts"
import {
  clusterExists,
  CONFIGURATION_FILES,
  finishRestore,
  restoredDirectory,
  runSingle,
  writeConfiguration
} from "../Cluster.ts"
import type { EmbeddedPostgresFailed } from "../EmbeddedPostgresFailed.ts"
import { isServerRunning } from "../Postmaster.ts"
import { removeStaleTempFiles, tempPathFor } from "../tempFiles.ts"
import { BackupFailed, tryFiles } from "./BackupFailed.ts"
import { type BackupManifest, CLUSTER_DIRECTORY, COMPRESSED_SUFFIX } from "./BackupManifest.ts"
import { copyFile } from "./copyFile.ts"
import { forEachConcurrently } from "./forEachConcurrently.ts"
import { syncTree } from "./syncTree.ts"
import type { VerifiedBackup } from "./verifyBackup.ts"

/** How a backup is restored. */
export interface RestoreOptions {
  /** Whether to replace an existing cluster, which is kept under another name. */
  readonly force: boolean
  /** The time in that name, in milliseconds. */
  readonly now: number
  /** Called with the copied bytes and the bytes of the cluster. */
  readonly onProgress: (done: number, total: number) => void
}

/** The data directory that gets the cluster. */
interface RestoreTarget {
  readonly dataDir: string
  readonly directory: string
  readonly binaries: Binaries
  readonly account: Account | undefined
  readonly sync: boolean
}

/** A cluster that was restored. */
export interface RestoredCluster {
  readonly directory: string
  /** Where the replaced cluster is; undefined if there was none. */
  readonly replaced: string | undefined
}

/** Fails if this version, these programs or this machine cannot open the cluster of a backup. */
export const checkPrograms = (
  manifest: BackupManifest,
  { installedIn, major }: Pick<Binaries, "installedIn" | "major">
): Effect.Effect<void, BackupFailed> => {
  const { arch, countersign, platform, postgres_major, schema_version } = manifest
  if (schema_version > latestMigration) {
    return new BackupFailed({
      phrase: `the backup has schema version ${schema_version}, but this version of Countersign supports ${latestMigration} at most: restore it with version ${countersign}, which made it, or a newer one`
    })
  }
  if (postgres_major !== major) {
    return new BackupFailed({
      phrase:
        `the backup is of PostgreSQL ${postgres_major}, but ` +
        (installedIn === undefined
          ? "this version of Countersign includes"
          : "COUNTERSIGN_POSTGRES_BIN has") +
        ` PostgreSQL ${major}: set COUNTERSIGN_POSTGRES_BIN to the programs of PostgreSQL ${postgres_major}`
    })
  }
  if (platform !== process.platform || arch !== process.arch) {
    return new BackupFailed({
      phrase: `the backup is of a machine with ${platform} ${arch}, and this one has ${process.platform} ${process.arch}: PostgreSQL's files cannot be moved between them. Restore it on such a machine`
    })
  }
  return Effect.void
}

/** Copies the cluster of a backup to a new directory, and compares the checksums once more: the backup may change after its verification. */
const copyCluster = (
  { checksums, directory, manifest }: VerifiedBackup,
  target: string,
  onProgress: RestoreOptions["onProgress"]
) =>
  tryFiles(`copying ${directory} to ${target}`, async (signal) => {
    const isCompressed = manifest.compression === "gzip"
    for (const name of manifest.directories) await mkdir(path.join(target, name), { mode: 0o700 })
    let done = 0
    const nameOf = (file: string) =>
      file.slice(CLUSTER_DIRECTORY.length + 1, isCompressed ? -COMPRESSED_SUFFIX.length : undefined)
    const copied = [...checksums].filter(([file]) => !CONFIGURATION_FILES.has(nameOf(file)))
    await forEachConcurrently(copied, async ([file, expected]) => {
      const name = nameOf(file)
      const { digest } = await copyFile(path.join(directory, file), path.join(target, name), {
        conversion: isCompressed ? "expand" : "none",
        signal,
        onBytes: (bytes) => onProgress((done += bytes), manifest.bytes)
      })
      if (digest !== expected) {
        throw new BackupFailed({
          phrase: `${path.join(directory, file)} changed during the restore: nothing was replaced. Repeat it`
        })
      }
    })
  })

/** Gives a directory and all below it to an account. */
const chownTree = async (directory: string, account: Account): Promise<void> => {
  for (const entry of await readdir(directory, { withFileTypes: true })) {
    const name = path.join(directory, entry.name)
    if (entry.isDirectory()) await chownTree(name, account)
    else await chown(name, account.uid, account.gid)
  }
  await chown(directory, account.uid, account.gid)
}

/** Replays the write-ahead log of a copied cluster, which makes it consistent, and shuts it down. */
const recover = Effect.fnUntraced(function* (target: RestoreTarget, staged: string) {
  const { code, output } = yield* runSingle({ ...target, directory: staged, input: "" })
  const label = path.join(staged, "backup_label")
  const isConsistent = yield* tryFiles(`looking at ${label}`, () =>
    lstat(label).then(
      () => false,
      () => true
    )
  )
  if (code !== 0 || !isConsistent) {
    const line = output.split("\n").find((text) => /FATAL|PANIC/.test(text)) ?? output.trim()
    return yield* new BackupFailed({
      phrase: `PostgreSQL cannot open the restored files, and nothing was replaced: it reported "${line.trim().slice(0, 300)}". Use another backup`
    })
  }
  yield* tryFiles(`removing ${label}.old`, () => rm(`${label}.old`, { force: true }))
})

const requireStopped = Effect.fnUntraced(function* (directory: string) {
  if (!(yield* isServerRunning({ directory }))) return
  return yield* new BackupFailed({
    phrase: `the embedded PostgreSQL in ${directory} is running: stop every service and command that uses it, then repeat the restore`
  })
})

/** Replaced clusters of one second that are kept. */
const MAX_KEPT = 100

/**
 * Keeps a cluster under a name that no other kept cluster has, and returns the name. The rename itself decides: it fails if another
 * cluster has the name, such as that of a restore in the same second.
 */
const keepReplaced = async (directory: string, name: string): Promise<string> => {
  for (let number = 1; ; number++) {
    const kept = number === 1 ? name : `${name}-${number}`
    try {
      await rename(directory, kept)
      return kept
    } catch (cause) {
      const code = errnoCode(cause)
      if (number === MAX_KEPT || (code !== "ENOTEMPTY" && code !== "EEXIST")) throw cause
    }
  }
}

/**
 * Puts a complete cluster in the place of the present one. A process that is killed between the two renames leaves the new one under
 * `restoredDirectory`, from where the next start takes it.
 */
const replaceCluster = Effect.fnUntraced(function* (
  { dataDir, directory }: RestoreTarget,
  staged: string,
  now: number
) {
  const restored = restoredDirectory(directory)
  const stamp = new Date(now).toISOString().slice(0, 19).replaceAll(":", "-")
  yield* tryFiles(`renaming ${staged} to ${restored}`, () => rename(staged, restored))
  yield* syncDirectory(dataDir)
  yield* requireStopped(directory)
  const name = `${directory}.before-restore-${stamp}Z`
  const replaced = yield* tryFiles(`renaming ${directory} to ${name}`, () => keepReplaced(directory, name))
  if (yield* isServerRunning({ directory: replaced })) {
    // A service has started between the check and the rename.
    yield* tryFiles(`renaming ${replaced} to ${directory}`, () => rename(replaced, directory))
    yield* requireStopped(directory)
  }
  yield* syncDirectory(dataDir)
  yield* finishRestore(dataDir, directory)
  return replaced
})

/**
 * Restores a verified backup into a data directory. The present cluster is replaced only after the restored one was recovered and is on
 * the disk. Whenever the process is killed, either the old or the new cluster is whole and used by the next start.
 */
export const restoreBackup = Effect.fn("EmbeddedPostgres.restoreBackup")(function* (
  target: RestoreTarget,
  backup: VerifiedBackup,
  { force, now, onProgress }: RestoreOptions
): Effect.fn.Return<RestoredCluster, BackupFailed | EmbeddedPostgresFailed> {
  const { account, dataDir, directory } = target
  yield* finishRestore(dataDir, directory)
  const isReplacing = yield* clusterExists(directory)
  if (isReplacing && !force) {
    return yield* new BackupFailed({
      phrase: `${dataDir} has a database already: set COUNTERSIGN_DATA_DIR to a new directory, or add --force, which keeps the present database under another name`
    })
  }
  yield* requireStopped(directory)
  yield* removeStaleTempFiles(dataDir)
  // Of an earlier restore that was killed before it replaced anything.
  yield* tryFiles(`removing ${restoredDirectory(directory)}`, () =>
    rm(restoredDirectory(directory), { recursive: true, force: true })
  )
  const staged = tempPathFor(directory)
  const steps = Effect.gen(function* () {
    yield* tryFiles(`making ${staged}`, () => mkdir(staged, { mode: 0o700 }))
    yield* copyCluster(backup, staged, onProgress)
    yield* writeConfiguration(staged, account)
    if (account !== undefined)
      yield* tryFiles(`changing the owner of ${staged}`, () => chownTree(staged, account))
    yield* tryFiles(`writing ${staged}`, () => syncTree(staged))
    yield* recover(target, staged)
    if (isReplacing) return { directory, replaced: yield* replaceCluster(target, staged, now) }
    yield* tryFiles(`renaming ${staged} to ${directory}`, () => rename(staged, directory))
    yield* syncDirectory(dataDir)
    return { directory, replaced: undefined }
  })
  return yield* Effect.ensuring(
    steps,
    Effect.promise(() => rm(staged, { recursive: true, force: true }).catch(() => {}))
  )
})
