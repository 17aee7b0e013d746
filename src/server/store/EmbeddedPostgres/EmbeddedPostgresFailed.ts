import { Effect, Schema } from "effect"
import { statSync } from "node:fs"
import path from "node:path"
import { errnoCode } from "../errnoCode.ts"

/**
 * The embedded PostgreSQL cannot be used. `phrase` is one line for the operator: what happened and what to do. It
 * contains paths and accounts, never a password.
 */
export class EmbeddedPostgresFailed extends Schema.TaggedError<EmbeddedPostgresFailed>()(
  "EmbeddedPostgresFailed",
  {
    phrase: Schema.String,
    cause: Schema.optionalKey(Schema.Defect())
  }
) {
  override get message(): string {
    return this.phrase
  }
}

/** The alternatives that end every phrase about the data directory. */
export const OTHER_OPTIONS =
  "or set COUNTERSIGN_DATA_DIR to another directory, or DATABASE_URL to a PostgreSQL of your own"

/** The owner of a path, or of its nearest parent that this account can look at; undefined if there is none. */
const ownerOf = (target: string): number | undefined => {
  for (let at = path.resolve(target); ; at = path.dirname(at)) {
    try {
      return statSync(at).uid
    } catch {
      if (at === path.dirname(at)) return undefined
    }
  }
}

/**
 * What to do if this account may not use a path. What belongs to another account than root is that of a service, whose PostgreSQL does not
 * start if other accounts may enter its directory: so the command changes its account, not the directory.
 */
export const permissionAdvice = (target: string, uid: number | undefined = process.getuid?.()): string => {
  const owner = ownerOf(target)
  if (uid === undefined) return "give this account access"
  return owner === undefined || owner === 0 || owner === uid
    ? `give this account (uid ${uid}) access`
    : `run this as root or as the service's account (uid ${owner}), not as uid ${uid}`
}

/** The path of a failed system call. */
const pathOf = (cause: unknown): string | undefined =>
  cause instanceof Error && "path" in cause && typeof cause.path === "string" ? cause.path : undefined

const phrases: Readonly<Record<string, string>> = {
  ENOSPC: "the disk is full: free some space",
  EDQUOT: "the disk quota is used up: free some space",
  EROFS: "the file system is read-only: make it writable",
  EPERM: "the operation is not permitted for this account: give it permission",
  ENOENT: "a parent directory is missing and cannot be created: create it",
  EEXIST: "a file has this name: move it away, or name a directory",
  ENOTDIR: "a part of the path is a file, not a directory: move it away",
  EMFILE: "too many files are open: raise the limit of open files",
  ENAMETOOLONG: "the path is too long: shorten it"
}

/** Why a system call failed, and what to do, for the operator. */
export const describeSystemCall = (cause: unknown): string => {
  const code = errnoCode(cause)
  const at = pathOf(cause)
  if (code === "EACCES")
    return `permission denied: ${at === undefined ? "give this account permission" : permissionAdvice(at)}`
  return (
    (code === undefined ? undefined : phrases[code]) ??
    `it failed with ${code ?? String(cause)}: fix the cause`
  )
}

/** Describes a failed system call to the operator. `doing` is a phrase such as "making the directory /x". */
export const fileSystemFailure = (doing: string, cause: unknown): EmbeddedPostgresFailed =>
  new EmbeddedPostgresFailed({
    phrase: `${doing}: ${describeSystemCall(cause)}, ${OTHER_OPTIONS}`,
    cause
  })

/** Runs a file system operation. Its failure is described to the operator. */
export const tryFileSystem = <A>(
  doing: string,
  run: () => Promise<A>
): Effect.Effect<A, EmbeddedPostgresFailed> =>
  Effect.tryPromise({ try: run, catch: (cause) => fileSystemFailure(doing, cause) })

/** Explains a well-known error message of PostgreSQL, or returns `undefined`. */
export const explainPostgresOutput = (output: string): string | undefined => {
  if (/No space left on device|Disk quota exceeded/.test(output)) return "the disk is full: free some space"
  if (/Read-only file system/.test(output)) return "the file system is read-only: make it writable"
  if (/Permission denied/.test(output))
    return "the server's account has no permission for the directory: give it permission"
  if (/could not (map|create).*shared memory|Cannot allocate memory/.test(output))
    return "the machine is out of memory"
  if (/administrative permissions is not permitted/.test(output))
    return "PostgreSQL does not run with administrator rights: use an ordinary account"
  if (/spawn .* ENOENT/.test(output))
    return "the program cannot run on this system (it needs the GNU C library, which Alpine lacks): set DATABASE_URL"
  if (/spawn .* EPERM/.test(output))
    return "this process may not change to the server's account: start it as an ordinary account"
  return undefined
}
