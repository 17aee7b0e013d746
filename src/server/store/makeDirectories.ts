import { mkdir, stat } from "node:fs/promises"
import path from "node:path"
import { errnoCode } from "./errnoCode.ts"

/**
 * Creates a directory and its missing parents, and returns the outermost created one; undefined if the directory exists.
 *
 * In place of `mkdir` with `recursive`: where a parent exists but takes no entries, as below `/proc`, Node 24 tries again for ever.
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
    // The parent exists, and takes no entries.
    if (outermost === undefined) throw cause
    return (await makeDirectories(directory, mode)) === undefined ? undefined : outermost
  }
}
