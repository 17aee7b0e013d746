import { Effect, Schema } from "effect"
import { errnoCode } from "../errnoCode.ts"

/**
 * The embedded store cannot be used. `phrase` is one line for the operator: what is wrong and what to do about it.
 * It names paths and accounts, never a password.
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

/** The way out that every phrase about the data directory ends with. */
export const OTHER_OPTIONS =
  "or set COUNTERSIGN_DATA_DIR to another directory, or DATABASE_URL to a PostgreSQL of your own"

const phrases: Readonly<Record<string, string>> = {
  ENOSPC: "the disk is full: free some space",
  EDQUOT: "the disk quota is used up: free some space",
  EROFS: "the file system is read-only: make it writable",
  EACCES: "permission is denied: give this account the right",
  EPERM: "the operation is not permitted to this account: give it the right",
  ENOENT: "a directory on the way is not there and cannot be made: make it",
  ENOTDIR: "something on the path is a file, not a directory: move it away",
  EMFILE: "too many files are open: raise the limit of open files",
  ENAMETOOLONG: "the path is too long: shorten it"
}

/** What a failed system call means to the operator. `doing` reads like "making the directory /x". */
export const fileSystemFailure = (doing: string, cause: unknown): EmbeddedPostgresFailed => {
  const code = errnoCode(cause)
  const why =
    (code === undefined ? undefined : phrases[code]) ?? `it failed with ${code ?? String(cause)}: see to it`
  return new EmbeddedPostgresFailed({ phrase: `${doing}: ${why}, ${OTHER_OPTIONS}`, cause })
}

/** A step on the file system, with its failure put into words. */
export const tryFileSystem = <A>(
  doing: string,
  run: () => Promise<A>
): Effect.Effect<A, EmbeddedPostgresFailed> =>
  Effect.tryPromise({ try: run, catch: (cause) => fileSystemFailure(doing, cause) })

/** A message of PostgreSQL's own log in our words, or `undefined` where it is none we know. */
export const explainPostgresOutput = (output: string): string | undefined => {
  if (/No space left on device|Disk quota exceeded/.test(output)) return "the disk is full: free some space"
  if (/Read-only file system/.test(output)) return "the file system is read-only: make it writable"
  if (/Permission denied/.test(output))
    return "the server's account may not use the directory: see to its rights"
  if (/could not (map|create).*shared memory|Cannot allocate memory/.test(output))
    return "the machine is out of memory"
  if (/administrative permissions is not permitted/.test(output))
    return "PostgreSQL does not run with administrator rights: use an ordinary account"
  if (/spawn .* ENOENT/.test(output))
    return "the program cannot run on this system (it wants the GNU C library, which Alpine lacks): set DATABASE_URL"
  if (/spawn .* EPERM/.test(output))
    return "this process may not change to the server's account: start it as an ordinary account"
  return undefined
}
