import { Clock, Console, Effect, Option } from "effect"
import { masterKeyPath } from "../../server/secrets/MasterKeyFile.ts"
import { restore as restoreStore, verifyBackup } from "../../server/store/EmbeddedPostgres.ts"
import { withProgress } from "../progress.ts"
import { formatMegabytes, reportBytes } from "./backup.ts"
import { readEmbeddedStore } from "./embeddedSettings.ts"
import { installKey, lacksOnlyKey, missingKeys, readGivenKey } from "./masterKey.ts"

/** Restores a backup into the configured data directory, or only verifies it. */
export const restore = Effect.fnUntraced(function* (flags: {
  readonly from: string
  readonly force: boolean
  readonly verify: boolean
  readonly masterKey: Option.Option<string>
}) {
  const store = yield* readEmbeddedStore
  const key = Option.isSome(flags.masterKey) ? yield* readGivenKey(store, flags.masterKey.value) : undefined
  const verified = yield* withProgress({ unit: "MB verified", hasOutput: false }, (report) =>
    verifyBackup(flags.from, reportBytes(report))
  )
  const { manifest } = verified
  const what = `${manifest.files.toLocaleString("en")} files, ${formatMegabytes(manifest.bytes)}, of ${manifest.completed_at}`
  if (flags.verify) {
    yield* Console.log(`${verified.directory} is complete: ${what}`)
  } else if (
    key !== undefined &&
    !flags.force &&
    (yield* lacksOnlyKey(store, key, manifest.master_key_ids))
  ) {
    yield* installKey(store, key)
    yield* Console.log(
      `Put the master key into ${masterKeyPath(store.dataDir)}. The database there is unchanged: only its key was missing`
    )
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
  const missing = yield* missingKeys(store, key, manifest.master_key_ids)
  if (missing.length > 0) {
    yield* Console.error(
      `The master key is missing (${missing.join(", ")}): the service does not start without it. Repeat the command with --master-key FILE, or set COUNTERSIGN_MASTER_KEY.`
    )
  }
})
