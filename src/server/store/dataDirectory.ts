/** The data directory of the embedded database, for operators: the space that is left, and when it was backed up. */
import { SecureRandom } from "effect/crypto"
import { readFile, rename, statfs, writeFile } from "node:fs/promises"
import path from "node:path"
import { errnoCode } from "./errnoCode.ts"

/** Free space and size of the disk of a directory, in bytes. A directory that does not exist yet is on the disk of its nearest parent. */
export const readDiskSpace = async (
  directory: string
): Promise<{ readonly free: number; readonly size: number }> => {
  try {
    const { bavail, blocks, bsize } = await statfs(directory)
    return { free: bavail * bsize, size: blocks * bsize }
  } catch (cause) {
    const parent = path.dirname(directory)
    if (errnoCode(cause) !== "ENOENT" || parent === directory) throw cause
    return readDiskSpace(parent)
  }
}

/** The file with the time of the newest backup. It is beside the cluster: a backup does not contain it, so a restored database has none. */
const backupFile = (dataDir: string): string => path.join(path.resolve(dataDir), "newest-backup")

/** Records that a backup was completed, in epoch milliseconds. */
export const writeNewestBackup = async (dataDir: string, at: number): Promise<void> => {
  const file = backupFile(dataDir)
  const temporary = `${file}.new-${Buffer.from(SecureRandom.randomBytesUnsafe(6)).toString("hex")}`
  // Readable by the service, whose account may be another one. A new file: root must not write through a link that the account made.
  await writeFile(temporary, `${new Date(at).toISOString()}\n`, { mode: 0o644, flag: "wx" })
  await rename(temporary, file)
}

/** When the newest backup was completed, in epoch milliseconds; null: no backup was made. */
export const readNewestBackup = async (dataDir: string): Promise<number | null> => {
  try {
    const at = Date.parse((await readFile(backupFile(dataDir), "utf8")).trim())
    return Number.isNaN(at) ? null : at
  } catch (cause) {
    if (errnoCode(cause) !== "ENOENT") throw cause
    return null
  }
}
