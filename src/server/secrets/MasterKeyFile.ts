import { Effect, Redacted, Schema } from "effect"
import { SecureRandom } from "effect/crypto"
import { link, mkdir, open, readFile, rm, stat } from "node:fs/promises"
import path from "node:path"
import { errnoCode } from "../store/errnoCode.ts"
import { syncDirectory } from "../store/EmbeddedPostgres/Cluster.ts"
import { generateMasterKey } from "./SecretBox.ts"

/** The made master key cannot be used. `phrase` is one line for the operator; it never holds the key. */
export class MasterKeyFileFailed extends Schema.TaggedError<MasterKeyFileFailed>()("MasterKeyFileFailed", {
  phrase: Schema.String,
  cause: Schema.optionalKey(Schema.Defect())
}) {
  override get message(): string {
    return this.phrase
  }
}

/** Where the made master key of a data directory lies. */
export const masterKeyPath = (dataDir: string): string => path.join(dataDir, "master-key")

const attempt = <A>(doing: string, run: () => Promise<A>) =>
  Effect.tryPromise({
    try: run,
    catch: (cause) =>
      new MasterKeyFileFailed({
        phrase: `${doing} failed (${errnoCode(cause) ?? String(cause)}): see to its rights, or set COUNTERSIGN_MASTER_KEY`,
        cause
      })
  })

/**
 * Writes a new key under a name of its own and links it into place: the file is there whole or not at all, and of
 * several processes that do so at once the first one's key is the key of all.
 */
const make = Effect.fnUntraced(function* (file: string) {
  const key = yield* generateMasterKey
  yield* attempt(`making the master key ${file}`, async () => {
    const half = `${file}.new-${Buffer.from(SecureRandom.randomBytesUnsafe(6)).toString("hex")}`
    try {
      await mkdir(path.dirname(file), { recursive: true, mode: 0o700 })
      const handle = await open(half, "wx", 0o600)
      try {
        await handle.writeFile(`${Redacted.value(key)}\n`)
        await handle.sync()
      } finally {
        await handle.close()
      }
      await link(half, file).catch((cause: unknown) => {
        if (errnoCode(cause) !== "EEXIST") throw cause
      })
    } finally {
      await rm(half, { force: true })
    }
  })
})

/** The file's text, or `undefined` where there is no file. Others than its owner must not be able to read it. */
const read = (file: string) =>
  attempt(`reading the master key ${file}`, async () => {
    try {
      return { text: (await readFile(file, "utf8")).trim(), mode: (await stat(file)).mode }
    } catch (cause) {
      if (errnoCode(cause) === "ENOENT") return undefined
      throw cause
    }
  })

/**
 * The master key of a data directory, in base64, as `COUNTERSIGN_MASTER_KEY` would hold it: made once, 32 random bytes,
 * mode 0600, durable before it is answered. A file that others can read, or that is empty, is refused: nothing is
 * ever written over a key, because what it sealed opens with no other. `used` is asked before one is made: the ids of the keys that the
 * store was sealed with. Where there are any, the key was lost, and a new one would not open what it sealed.
 */
export const loadOrCreateMasterKey = Effect.fn("MasterKeyFile.masterKeyOf")(function* <E = never>(
  dataDir: string,
  used: Effect.Effect<ReadonlyArray<string>, E> = Effect.succeed([])
): Effect.fn.Return<Redacted.Redacted, MasterKeyFileFailed | E> {
  const file = masterKeyPath(dataDir)
  let found = yield* read(file)
  if (found === undefined) {
    const [lost] = yield* used
    if (lost !== undefined) {
      return yield* new MasterKeyFileFailed({
        phrase: `the master key ${file} is gone, and the store was sealed with it (${lost}): put it back from a backup, or set COUNTERSIGN_MASTER_KEY to it; what it sealed opens with no other`
      })
    }
    yield* make(file)
    yield* Effect.mapError(
      syncDirectory(dataDir),
      ({ phrase, cause }) => new MasterKeyFileFailed({ phrase, cause })
    )
    found = yield* read(file)
  }
  if (found === undefined || found.text === "") {
    return yield* new MasterKeyFileFailed({
      phrase: `the master key ${file} is empty: put it back from a backup; what it sealed opens with no other`
    })
  }
  // Windows has no mode bits.
  if (process.platform !== "win32" && (found.mode & 0o077) !== 0) {
    return yield* new MasterKeyFileFailed({
      phrase: `the master key ${file} can be read by other accounts: run chmod 600 ${file}`
    })
  }
  return Redacted.make(found.text, { label: "master key" })
})
