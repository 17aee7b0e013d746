/** Sentences for the operator about files that a command reads or writes. Hooks use them too, so this loads no command line library. */
import path from "node:path"
import { errnoCode } from "../server/store/errnoCode.ts"

/** A file cannot be read or written. The message is one sentence: what happened and what to do. */
export class FileFailed extends Error {
  override readonly name = "FileFailed"
}

type Access = "read" | "write"

/** The account of this process, for messages about permissions. */
const account = (): string => {
  const uid = process.getuid?.()
  return uid === undefined ? "this account" : `this account (uid ${uid})`
}

/** Describes an error of a file by its code; undefined for an error without one. */
const describeByCode = (file: string, code: string | undefined, access: Access): string | undefined => {
  switch (code) {
    case undefined:
      return undefined
    case "ENOENT":
      return access === "read"
        ? `${file} does not exist: check the path.`
        : `The directory ${path.dirname(file)} does not exist: create it, or give another path.`
    case "EISDIR":
      return `${file} is a directory: give the path of a file.`
    case "ENOTDIR":
      return `A part of the path ${file} is a file, not a directory: correct the path.`
    case "EEXIST":
      return `${file} exists: give another path, or remove it.`
    case "EACCES":
    case "EPERM":
      return `Permission denied for ${file}: give ${account()} ${access} access, or run the command as another account.`
    case "EROFS":
      return `The file system of ${file} is read-only: give a path on another one.`
    case "ENOSPC":
    case "EDQUOT":
      return `The disk of ${file} is full: free some space, or give a path on another disk.`
    case "ENAMETOOLONG":
      return `The path ${file} is too long: shorten it.`
    case "ELOOP":
      return `The path ${file} is a cycle of symbolic links: correct the links.`
    case "EMFILE":
    case "ENFILE":
      return `${file} cannot be opened, because too many files are open: raise the limit of open files.`
    case "EIO":
      return `The disk of ${file} failed: check the kernel's log, and restore the file from a backup.`
    case "ERR_ENCODING_INVALID_ENCODED_DATA":
      return `${file} is not UTF-8 text: give a text file, or convert it to UTF-8.`
    default:
      return undefined
  }
}

/** Describes why a file could not be read or written, in one sentence. `-` is standard input or output. */
export const describeFileFailure = (file: string, error: unknown, access: Access = "read"): string => {
  const name = file === "-" ? (access === "read" ? "Standard input" : "Standard output") : file
  const known = describeByCode(name, errnoCode(error), access)
  if (known !== undefined) return known
  const message = error instanceof Error ? error.message : String(error)
  return errnoCode(error) === undefined
    ? message
    : `${name} cannot be ${access === "read" ? "read" : "written"}: ${message}`
}

/** An error about a file, as `describeFileFailure` describes it. */
export const fileFailed = (file: string, error: unknown, access: Access = "read"): FileFailed =>
  error instanceof FileFailed
    ? error
    : new FileFailed(describeFileFailure(file, error, access), { cause: error })

/** Describes a failed system call by the path that Node attaches; undefined for any other error. */
export const describePathFailure = (error: unknown): string | undefined => {
  if (!(error instanceof Error) || !("path" in error) || typeof error.path !== "string") return undefined
  // A process that cannot be started has a path too.
  if (!("syscall" in error) || String(error.syscall).startsWith("spawn")) return undefined
  return describeByCode(error.path, errnoCode(error), error.syscall === "mkdir" ? "write" : "read")
}
