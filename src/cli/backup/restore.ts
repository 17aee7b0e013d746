import { Clock, Console, Effect, Option } from "effect"
import { masterKeyPath } from "../../server/secrets/MasterKeyFile.ts"
import { restore as restoreStore, verifyBackup } from "../../server/store/EmbeddedPostgres.ts"
import { withProgress } from "../progress.ts"
import { formatMegabytes, reportBytes } from "./backup.ts"
import { readEmbeddedStore } from "./embeddedSettings.ts"
import { findSecretBox, installKey, readGivenKey } from "./masterKey.ts"

/** Restores a backup into the configured data directory, or only verifies it. */
export const restore = Effect.fnUntraced(function* (flags: {
  readonly from: string
  readonly force: boolean
  readonly verify: boolean
  readonly unsigned: boolean
  readonly masterKey: Option.Option<string>
}) {
  const store = yield* readEmbeddedStore
  const key = Option.isSome(flags.masterKey) ? yield* readGivenKey(store, flags.masterKey.value) : undefined
  const box = yield* findSecretBox(store, key)
  const isSigned = flags.unsigned
    ? undefined
    : (text: string, signature: string) => box?.isSigned("backup", text, signature) === true
  const verified = yield* withProgress({ unit: "MB verified", hasOutput: false }, (report) =>
    verifyBackup(flags.from, isSigned, reportBytes(report))
  )
  const { manifest } = verified
  const what = `${manifest.files.toLocaleString("en")} files, ${formatMegabytes(manifest.bytes)}, of ${manifest.completed_at}`
  if (flags.verify) {
    yield* Console.log(`${verified.directory} is complete: ${what}`)
  } else {
    const now = yield* Clock.currentTimeMillis
    const { replaced } = yield* withProgress({ unit: "MB restored", hasOutput: false }, (report) =>
      restoreStore(store, verified, { force: flags.force, now, onProgress: reportBytes(report) })
    )
    if (key !== undefined) yield* installKey(store, key)
    yield* Console.log(`Restored ${store.dataDir}: ${what}`)
    if (replaced !== undefined) {
      yield* Console.log(`The replaced database is in ${replaced}: remove it once it is no longer needed`)
    }
  }
  const missing = manifest.master_key_ids.filter((id) => box?.keyIds.includes(id) !== true)
  if (missing.length > 0) {
    yield* Console.error(
      `The master key is missing (${missing.join(", ")}): the service does not start without it. Put it into ${masterKeyPath(store.dataDir)} with mode 0600, or set COUNTERSIGN_MASTER_KEY.`
    )
  }
})
