import { mkdir, stat } from "node:fs/promises"
import path from "node:path"
import { errnoCode } from "./errnoCode.ts"

/**
 * Creates a directory and its missing parents, and returns the outermost created one; undefined if the directory exists.
 *
 * Used instead of `mkdir` with `recursive`, which in Node 24 retries endlessly below a parent that accepts no entries,
 * such as `/proc`.
 */
export const makeDirectories = async (directory: string, mode: number): Promise<string | undefined> => {
  try {
    await mkdir(directory, { mode })
    return directory
  } catch (cause) {
    if (errnoCode(cause) === "EEXIST" && (await stat(directory)).isDirectory()) return undefined
    const parent = path.dirname(directory)
    if (errnoCode(cause) !== "ENOENT" || parent === directory) throw cause
    const outermost = await makeDirectories(parent, mode)
    // The parent exists, but accepts no entries.
    if (outermost === undefined) throw cause
    return (await makeDirectories(directory, mode)) === undefined ? undefined : outermost
  }
}
