import { mkdir, stat } from "node:fs/promises"
import path from "node:path"
import { errnoCode } from "./errnoCode.ts"

/** Creates a directory. False: it exists. */
const makeOne = async (directory: string, mode: number): Promise<boolean> => {
  try {
    await mkdir(directory, { mode })
    return true
  } catch (cause) {
    if (errnoCode(cause) === "EEXIST" && (await stat(directory)).isDirectory()) return false
    throw cause
  }
}

/**
 * Creates a directory and its missing parents, and returns the outermost created one; undefined if the directory exists.
 *
 * Used instead of `mkdir` with `recursive`, which in Node 24 retries endlessly below a parent that accepts no entries,
 * such as `/proc`.
 */
export const makeDirectories = async (directory: string, mode: number): Promise<string | undefined> => {
  try {
    return (await makeOne(directory, mode)) ? directory : undefined
  } catch (cause) {
    const parent = path.dirname(directory)
    if (errnoCode(cause) !== "ENOENT" || parent === directory) throw cause
    const outermost = await makeDirectories(parent, mode)
    // Once more only: the parent can exist and accept no entries.
    return (await makeOne(directory, mode)) ? (outermost ?? directory) : outermost
  }
}
