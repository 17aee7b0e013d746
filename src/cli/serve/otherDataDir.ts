import { Effect } from "effect"
import path from "node:path"
import type { ProcessFacts, StoreSettings } from "../../server/config/Settings.ts"
import { defaultDataDir, embeddedStoreExists } from "../../server/store/EmbeddedPostgres.ts"

/** The uid of an account that is not root. */
const ORDINARY_UID = 1_000

/**
 * A warning if the service is about to create a database in its default data directory although the default of the other kind of account
 * has one. Root uses `/var/lib/countersign`, other accounts `.countersign` in the working directory.
 */
export const warnOfOtherDataDir = Effect.fnUntraced(function* (store: StoreSettings, machine: ProcessFacts) {
  const isDefault = store.kind === "embedded" && store.dataDir === defaultDataDir(machine)
  // On Windows there is no root.
  if (!isDefault || machine.uid === undefined) return undefined
  const other = defaultDataDir({ cwd: machine.cwd, uid: machine.uid === 0 ? ORDINARY_UID : 0 })
  const exists = (directory: string) => Effect.orElseSucceed(embeddedStoreExists(directory), () => false)
  if ((yield* exists(store.dataDir)) || !(yield* exists(other))) return undefined
  const [here, there] =
    machine.uid === 0
      ? ["as root the data directory is", "an ordinary account's"]
      : ["as this account the data directory is", "root's"]
  return (
    `A new database is created: ${here} ${path.resolve(store.dataDir)}, but ${other}, ${there} default, has a database. ` +
    `To use that one, set COUNTERSIGN_DATA_DIR=${other}.`
  )
})
