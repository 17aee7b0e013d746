import { Effect, Redacted, Result } from "effect"
import { readFile } from "node:fs/promises"
import path from "node:path"
import type { StoreSettings } from "../../server/config/Settings.ts"
import * as KeyRing from "../../server/secrets/KeyRing.ts"
import {
  installMasterKey,
  masterKeyPath,
  readMasterKey,
  writeMasterKeyFile
} from "../../server/secrets/MasterKeyFile.ts"
import { SecretBox } from "../../server/secrets/SecretBox.ts"
import { BackupFailed } from "../../server/store/EmbeddedPostgres.ts"
import { errnoCode } from "../../server/store/errnoCode.ts"
import { describeFileFailure } from "../fileFailure.ts"

type EmbeddedStore = Extract<StoreSettings, { readonly kind: "embedded" }>

const refuse = (phrase: string) => Effect.fail(new BackupFailed({ phrase }))

/** Copies the generated master key of a data directory to a file outside of the directory of backups. Returns the key's id. */
export const copyMasterKey = Effect.fnUntraced(function* (
  store: EmbeddedStore,
  file: string,
  backups: string
) {
  if (store.masterKeys !== undefined) {
    return yield* refuse(
      "the master key is set by COUNTERSIGN_MASTER_KEY: leave out --master-key-to, and back up the place that sets it"
    )
  }
  if (path.resolve(file).startsWith(`${path.resolve(backups)}${path.sep}`)) {
    return yield* refuse(
      `${file} is in the directory of the backups: name a file elsewhere, because the key unseals their secrets`
    )
  }
  const key = yield* readMasterKey(store.dataDir)
  if (key === undefined)
    return yield* refuse(
      `${masterKeyPath(store.dataDir)} does not exist: start the service once, or leave out --master-key-to`
    )
  const present = yield* readKeyFile(file)
  if (present === undefined) yield* writeMasterKeyFile(file, key)
  else if (Redacted.value(present).trim() !== Redacted.value(key))
    return yield* refuse(`${file} has another content: name another file, or remove it`)
  const ring = KeyRing.fromTexts([key])
  return Result.isSuccess(ring) ? ring.success.primary.id : yield* refuse(ring.failure.message)
})

/** A file with a key; undefined if it does not exist. */
const readKeyFile = (file: string) =>
  Effect.tryPromise({
    try: async () => {
      try {
        return Redacted.make(await readFile(file, "utf8"), { label: "master key" })
      } catch (cause) {
        if (errnoCode(cause) === "ENOENT") return undefined
        throw cause
      }
    },
    catch: (cause) => new BackupFailed({ phrase: describeFileFailure(file, cause), cause })
  })

/** Reads the file of `--master-key`, and checks that the data directory has no other key. */
export const readGivenKey = Effect.fnUntraced(function* (store: EmbeddedStore, file: string) {
  if (store.masterKeys !== undefined) {
    return yield* refuse(
      "the master key is set by COUNTERSIGN_MASTER_KEY: leave out --master-key, or unset the variable"
    )
  }
  const text = yield* readKeyFile(file)
  if (text === undefined) return yield* refuse(`${file} does not exist: name the file with the master key`)
  const key = Redacted.make(Redacted.value(text).trim(), { label: "master key" })
  const ring = KeyRing.fromTexts([key])
  if (Result.isFailure(ring)) return yield* refuse(`${file}: ${ring.failure.message}`)
  const present = yield* readMasterKey(store.dataDir)
  if (present !== undefined && Redacted.value(present) !== Redacted.value(key)) {
    return yield* refuse(
      `${masterKeyPath(store.dataDir)} has another key: move it away if no secret of the present database is needed, or leave out --master-key`
    )
  }
  return key
})

/** Writes a key into a data directory that has none. */
export const installKey = (store: EmbeddedStore, key: Redacted.Redacted) =>
  installMasterKey(store.dataDir, key)

/** The box of the configured master keys, or of the given or the generated one; undefined if there is none. */
export const findSecretBox = Effect.fnUntraced(function* (
  store: EmbeddedStore,
  given: Redacted.Redacted | undefined
) {
  const generated = given ?? (yield* readMasterKey(store.dataDir))
  const masterKeys = store.masterKeys ?? (generated === undefined ? undefined : ([generated] as const))
  return masterKeys === undefined
    ? undefined
    : yield* Effect.provide(SecretBox, SecretBox.layer({ masterKeys }))
})

/** The box that signs a backup. */
export const requireSecretBox = Effect.fnUntraced(function* (store: EmbeddedStore) {
  const box = yield* findSecretBox(store, undefined)
  return (
    box ??
    (yield* refuse(
      `${masterKeyPath(store.dataDir)} does not exist, and a backup is signed with the master key: start the service once, or set COUNTERSIGN_MASTER_KEY`
    ))
  )
})
