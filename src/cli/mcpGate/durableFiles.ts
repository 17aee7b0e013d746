/** Small files that survive a kill of the process, and if they are durable, a crash of the machine. */
import { link, open, readFile, rename, rm } from "node:fs/promises"
import path from "node:path"
import { errnoCode } from "../../server/store/errnoCode.ts"
import { makeDirectories } from "../../server/store/makeDirectories.ts"

/** For the account of the process only: the files have arguments and results of calls. */
const FILE_MODE = 0o600
const DIRECTORY_MODE = 0o700

/** Names of a new file are on disk once its directory is. Windows cannot open a directory, and needs no such step. */
const syncDirectory = async (directory: string): Promise<void> => {
  if (process.platform === "win32") return
  const handle = await open(directory, "r")
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

const write = async (file: string, text: string, isDurable = true): Promise<void> => {
  const handle = await open(file, "w", FILE_MODE)
  try {
    await handle.writeFile(text)
    if (isDurable) await handle.sync()
  } finally {
    await handle.close()
  }
}

let temporaryFiles = 0

/** A name that no other write to the file uses, in this process or in another. */
const temporaryOf = (file: string): string => `${file}.${process.pid}.${++temporaryFiles}.tmp`

/** Creates a directory and those above it. */
export const makeDirectory = (directory: string) => makeDirectories(directory, DIRECTORY_MODE)

/**
 * Creates a file, whole. Returns `false` if it exists: of several processes, one creates it, and the others can read all of its text. The
 * file system must have hard links, which alone give a written file a name that must be free.
 */
export const createDurably = async (file: string, text: string): Promise<boolean> => {
  const temporary = temporaryOf(file)
  try {
    await write(temporary, text)
    await link(temporary, file)
  } catch (error) {
    if (errnoCode(error) === "EEXIST") return false
    throw error
  } finally {
    await rm(temporary, { force: true })
  }
  await syncDirectory(path.dirname(file))
  return true
}

const replace = async (file: string, text: string, isDurable: boolean): Promise<void> => {
  const temporary = temporaryOf(file)
  await write(temporary, text, isDurable)
  await rename(temporary, file)
  if (isDurable) await syncDirectory(path.dirname(file))
}

/** Replaces a file, at once and whole. */
export const replaceDurably = (file: string, text: string) => replace(file, text, true)

/** The same for a file that may be lost in a crash of the machine, without the time that a disk takes. */
export const replaceQuickly = (file: string, text: string) => replace(file, text, false)

/** The text of a file; undefined if it does not exist. */
export const readIfExists = async (file: string): Promise<string | undefined> => {
  try {
    return await readFile(file, "utf8")
  } catch (error) {
    if (errnoCode(error) === "ENOENT") return undefined
    throw error
  }
}

/** Removes files, if they exist. */
export const removeFiles = async (files: ReadonlyArray<string>): Promise<void> => {
  await Promise.all(files.map((file) => rm(file, { force: true })))
}

/** Renames a directory. Returns `false` if it does not exist: of several processes, one renames it. */
export const claimDirectory = async (from: string, to: string): Promise<boolean> => {
  try {
    await rename(from, to)
    return true
  } catch (error) {
    if (errnoCode(error) === "ENOENT") return false
    throw error
  }
}
