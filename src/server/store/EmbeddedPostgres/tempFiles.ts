import { SecureRandom } from "effect/crypto"
import { readdir, rm } from "node:fs/promises"
import path from "node:path"
import { errnoCode } from "../errnoCode.ts"
import { tryFileSystem } from "./EmbeddedPostgresFailed.ts"

/**
 * The temporary path for creating `target`. A file or directory that takes time to create is created under this name, which contains the
 * process id, and then renamed. If the process is killed before, the next start removes the temporary file.
 */
export const tempPathFor = (target: string): string =>
  `${target}.new-${process.pid}-${Buffer.from(SecureRandom.randomBytesUnsafe(6)).toString("hex")}`

/** Whether a process with this id exists, under any account. */
export const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0)
    return true
  } catch (cause) {
    return errnoCode(cause) !== "ESRCH"
  }
}

/** Removes the temporary files of ended processes in a directory. */
export const removeStaleTempFiles = (directory: string) =>
  tryFileSystem(`clearing ${directory}`, async () => {
    for (const name of await readdir(directory)) {
      const pid = /\.new-(\d+)-[0-9a-f]{12}$/.exec(name)?.[1]
      if (pid === undefined || isAlive(Number(pid))) continue
      // Children of a killed start may still write into it for a moment.
      await rm(path.join(directory, name), { recursive: true, force: true, maxRetries: 20, retryDelay: 100 })
    }
  })
