import { Clock, Console, Effect, Option } from "effect"
import { StoreMissing } from "../../server/main/layerStore.ts"
import {
  backUp,
  EmbeddedPostgres,
  embeddedStoreExists,
  removeOldBackups
} from "../../server/store/EmbeddedPostgres.ts"
import { withProgress } from "../progress.ts"
import { readEmbeddedStore } from "./embeddedSettings.ts"
import { copyMasterKey, requireSecretBox } from "./masterKey.ts"

const MEGABYTE = 1_000_000

/** Reports bytes as megabytes. */
export const reportBytes =
  (report: (done: number, fraction?: number) => void) =>
  (done: number, total: number): void =>
    report(Math.round(done / MEGABYTE), total === 0 ? undefined : done / total)

/** Whole megabytes, at least 1. */
export const formatMegabytes = (bytes: number): string =>
  `${Math.max(1, Math.round(bytes / MEGABYTE)).toLocaleString("en")} MB`

/** Makes a backup of the embedded database, which is started if it does not run, and prints its directory. */
export const backup = Effect.fnUntraced(function* (flags: {
  readonly to: string
  readonly compress: boolean
  readonly keep: Option.Option<number>
  readonly masterKeyTo: Option.Option<string>
}) {
  const store = yield* readEmbeddedStore
  if (!(yield* embeddedStoreExists(store.dataDir))) return yield* new StoreMissing({ dataDir: store.dataDir })
  if (Option.isSome(flags.masterKeyTo)) {
    const id = yield* copyMasterKey(store, flags.masterKeyTo.value, flags.to)
    yield* Console.error(
      `${flags.masterKeyTo.value} has the master key ${id}. Keep it apart from the backups.`
    )
  }
  const box = yield* requireSecretBox(store)
  const now = yield* Clock.currentTimeMillis
  const { directory, manifest, storedBytes } = yield* withProgress(
    { unit: "MB", hasOutput: false },
    (report) =>
      // The layer keeps the server running for the time of the backup, also if the service stops.
      Effect.provide(
        Effect.andThen(
          EmbeddedPostgres,
          backUp(store.dataDir, {
            to: flags.to,
            compress: flags.compress,
            now,
            sign: (text) => box.sign("backup", text),
            onProgress: reportBytes(report)
          })
        ),
        EmbeddedPostgres.layer(store)
      )
  )
  const removed = Option.isSome(flags.keep) ? yield* removeOldBackups(directory, flags.keep.value) : []
  yield* Console.error(
    `${manifest.files.toLocaleString("en")} files, ${formatMegabytes(manifest.bytes)}` +
      (flags.compress ? ` (${formatMegabytes(storedBytes)} compressed)` : "") +
      (removed.length === 0 ? "" : `; removed ${removed.length} older`)
  )
  if (Option.isNone(flags.masterKeyTo) && manifest.master_key_ids.length > 0) {
    yield* Console.error(
      `The backup does not contain the master key ${manifest.master_key_ids.join(", ")}, without which its secrets cannot be read.`
    )
  }
  // The directory alone goes to stdout, so that BACKUP=$(countersign backup …) captures it.
  yield* Console.log(directory)
})
