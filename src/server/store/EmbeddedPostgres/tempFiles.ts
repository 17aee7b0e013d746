import { SecureRandom } from "effect/crypto"
import { readdir, rm } from "node:fs/promises"
import path from "node:path"
import { errnoCode } from "../errnoCode.ts"
import { tryFileSystem } from "./EmbeddedPostgresFailed.ts"

/**
 * What takes time to make is made under a name of its own, with the process id of its maker in it, and renamed into place
 * when it is whole: a kill on the way leaves a half that the next start removes, and never half a thing in place.
 */
export const tempPathFor = (whole: string): string =>
  `${whole}.new-${process.pid}-${Buffer.from(SecureRandom.randomBytesUnsafe(6)).toString("hex")}`

/** Whether a process of this id exists. Another account's counts. */
export const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0)
    return true
  } catch (cause) {
    return errnoCode(cause) !== "ESRCH"
  }
}

/** Removes the halves in a directory whose makers are gone. */
export const removeStaleTempFiles = (directory: string) =>
  tryFileSystem(`clearing ${directory}`, async () => {
    for (const name of await readdir(directory)) {
      const pid = /\.new-(\d+)-[0-9a-f]{12}$/.exec(name)?.[1]
      if (pid === undefined || isAlive(Number(pid))) continue
      // What a killed start left running may still write into it for a moment.
      await rm(path.join(directory, name), { recursive: true, force: true, maxRetries: 20, retryDelay: 100 })
    }
  })
