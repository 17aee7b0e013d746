import { Effect, Redacted, Schema } from "effect"
import { SecureRandom } from "effect/crypto"
import { link, open, readFile, rm, stat } from "node:fs/promises"
import path from "node:path"
import { errnoCode } from "../store/errnoCode.ts"
import { makeDirectories } from "../store/makeDirectories.ts"
import { syncDirectory } from "../store/syncDirectory.ts"
import { generateMasterKey } from "./SecretBox.ts"

/** The generated master key cannot be read or written. `phrase` is one line for the operator and never contains the key. */
export class MasterKeyFileFailed extends Schema.TaggedError<MasterKeyFileFailed>()("MasterKeyFileFailed", {
  phrase: Schema.String,
  cause: Schema.optionalKey(Schema.Defect())
}) {
  override get message(): string {
    return this.phrase
  }
}

/** The path of the generated master key in a data directory. */
export const masterKeyPath = (dataDir: string): string => path.join(dataDir, "master-key")

/** Whether this account may not read the file, which belongs to root if root started the service. */
export const isForbidden = ({ cause }: MasterKeyFileFailed): boolean => {
  const code = errnoCode(cause)
  return code === "EACCES" || code === "EPERM"
}

const attempt = <A>(doing: string, file: string, run: () => Promise<A>) =>
  Effect.tryPromise(run).pipe(
    Effect.catch(({ cause }) =>
      Effect.flatMap(adviceFor(file, cause), (advice) =>
        Effect.fail(
          new MasterKeyFileFailed({
            phrase: `${doing} ${file} failed (${errnoCode(cause) ?? String(cause)}): ${advice}`,
            cause
          })
        )
      )
    )
  )

/** What to do about a failed system call. Opening the file to another account would reveal the key. */
const adviceFor = (file: string, cause: unknown) =>
  Effect.promise(async () => {
    const code = errnoCode(cause)
    if (code !== "EACCES" && code !== "EPERM")
      return "check the file and its directory, or set COUNTERSIGN_MASTER_KEY"
    const owner = await stat(file).then(
      ({ uid }) => uid,
      () => undefined
    )
    return owner === undefined || owner === 0
      ? "run the command as root, or set COUNTERSIGN_MASTER_KEY"
      : `run the command as root or as the account with uid ${owner}, or set COUNTERSIGN_MASTER_KEY`
  })

/**
 * Writes a key to a temporary file and hard-links it to its final name, which is atomic: the file is complete or absent. If several
 * processes do this concurrently, the first link wins and all of them use that key. An existing file is kept.
 */
export const writeMasterKeyFile = Effect.fnUntraced(function* (
  file: string,
  key: Redacted.Redacted
): Effect.fn.Return<void, MasterKeyFileFailed> {
  yield* attempt("creating the master key", file, async () => {
    const temporary = `${file}.new-${Buffer.from(SecureRandom.randomBytesUnsafe(6)).toString("hex")}`
    try {
      await makeDirectories(path.dirname(file), 0o700)
      const handle = await open(temporary, "wx", 0o600)
      try {
        await handle.writeFile(`${Redacted.value(key)}\n`)
        await handle.sync()
      } finally {
        await handle.close()
      }
      await link(temporary, file).catch((cause: unknown) => {
        if (errnoCode(cause) !== "EEXIST") throw cause
      })
    } finally {
      await rm(temporary, { force: true })
    }
  })
})

/** The file's text and mode, or `undefined` if the file does not exist. */
const read = (file: string) =>
  attempt("reading the master key", file, async () => {
    try {
      return { text: (await readFile(file, "utf8")).trim(), mode: (await stat(file)).mode }
    } catch (cause) {
      if (errnoCode(cause) === "ENOENT") return undefined
      throw cause
    }
  })

/**
 * Reads the master key of a data directory, and creates it if it does not exist: 32 random bytes in base64, in the format of
 * `COUNTERSIGN_MASTER_KEY`, mode 0600, synced to disk before this returns. Fails if the file is empty or readable by other accounts. Never
 * overwrites a file, because secrets sealed with a lost key are unreadable. `used` returns the ids of the keys that sealed secrets in the
 * database. If there are any and the file is missing, the key was lost: this fails, because a new key could not unseal them.
 */
export const loadOrCreateMasterKey = Effect.fn("MasterKeyFile.loadOrCreateMasterKey")(function* <E = never>(
  dataDir: string,
  used: Effect.Effect<ReadonlyArray<string>, E> = Effect.succeed([])
): Effect.fn.Return<Redacted.Redacted, MasterKeyFileFailed | E> {
  const file = masterKeyPath(dataDir)
  let found = yield* read(file)
  if (found === undefined) {
    const [lost] = yield* used
    if (lost !== undefined) {
      return yield* new MasterKeyFileFailed({
        phrase: `the master key ${file} is missing, but secrets in the database were sealed with it (${lost}): restore the file from a backup, or set COUNTERSIGN_MASTER_KEY to the key; no other key can unseal them`
      })
    }
    yield* installMasterKey(dataDir, yield* generateMasterKey)
    found = yield* read(file)
  }
  return yield* usableKey(file, found)
})

/** Writes the master key of a data directory that has none, and syncs it to disk. */
export const installMasterKey = Effect.fnUntraced(function* (
  dataDir: string,
  key: Redacted.Redacted
): Effect.fn.Return<void, MasterKeyFileFailed> {
  yield* writeMasterKeyFile(masterKeyPath(dataDir), key)
  yield* Effect.mapError(
    syncDirectory(dataDir),
    ({ phrase, cause }) => new MasterKeyFileFailed({ phrase, cause })
  )
})

/** Reads the master key of a data directory; undefined if there is none yet. Creates nothing. */
export const readMasterKey = Effect.fnUntraced(function* (dataDir: string) {
  const file = masterKeyPath(dataDir)
  const found = yield* read(file)
  return found === undefined ? undefined : yield* usableKey(file, found)
})

/** The key in a file, unless the file is empty or other accounts can read it. */
const usableKey = Effect.fnUntraced(function* (
  file: string,
  found: { readonly text: string; readonly mode: number } | undefined
) {
  if (found === undefined || found.text === "") {
    return yield* new MasterKeyFileFailed({
      phrase: `the master key ${file} is empty: restore it from a backup; no other key can unseal what it sealed`
    })
  }
  // Windows has no mode bits.
  if (process.platform !== "win32" && (found.mode & 0o077) !== 0) {
    return yield* new MasterKeyFileFailed({
      phrase: `the master key ${file} is readable by other accounts: run chmod 600 ${file}`
    })
  }
  return Redacted.make(found.text, { label: "master key" })
})
