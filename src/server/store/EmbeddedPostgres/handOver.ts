import { Effect } from "effect"
import { lchown, lstat, open, readdir, stat } from "node:fs/promises"
import path from "node:path"
import { errnoCode } from "../errnoCode.ts"
import { serverAccount } from "./Account.ts"
import { linkPackage } from "./Binaries.ts"
import { prepareDataDir } from "./Cluster.ts"
import { tryFileSystem, EmbeddedPostgresFailed, OTHER_OPTIONS } from "./EmbeddedPostgresFailed.ts"
import { LOG_FILE } from "./Postmaster.ts"

/**
 * This service's files in a data directory: the cluster (also restored and replaced ones), the master key, the time of the newest backup,
 * the log, copies of programs, and unfinished files.
 */
const OWN_ENTRIES =
  /^(?:postgres(?:\.restored|\.before-restore-[\w-]+)?|master-key|newest-backup|postgres\.log(?:\.1)?|(?:linux|darwin)-\w+-\d[\w.-]*)(?:\.new-[\w-]+)?$/

/** The owner and the entries of a directory; `undefined` if it does not exist. */
const look = (directory: string) =>
  tryFileSystem(`looking at ${directory}`, async () => {
    try {
      const [{ uid }, entries] = await Promise.all([stat(directory), readdir(directory)])
      return { uid, entries }
    } catch (cause) {
      if (errnoCode(cause) === "ENOENT") return undefined
      throw cause
    }
  })

/**
 * Prepares a data directory, as root, for a process that will have changed to the account `user`: creates it, or gives
 * root's to the account, with the server's log. The cluster itself must be the account's already. A directory with
 * files of other programs is refused, because COUNTERSIGN_DATA_DIR could name any directory of the system.
 *
 * Root changes nothing in a directory that is the account's: a process of the account could replace the names there by
 * links to other files.
 */
export const handOver = Effect.fn("EmbeddedPostgres.handOver")(function* (options: {
  readonly dataDir: string
  readonly cluster: string
  readonly postgresBin: string | undefined
  readonly user: string
}): Effect.fn.Return<void, EmbeddedPostgresFailed> {
  const { cluster, dataDir, user } = options
  const account = yield* serverAccount(cluster, user)
  if (account === undefined) return
  // Only root may be able to complete the package where npm installed it.
  if (options.postgresBin === undefined) yield* linkPackage
  const found = yield* look(dataDir)
  if (found !== undefined && found.uid !== 0 && found.uid !== account.uid) {
    return yield* new EmbeddedPostgresFailed({
      phrase:
        `${dataDir} belongs to another account (uid ${found.uid}) than ${user}: stop all services that use it, ` +
        `then run chown ${user}: ${dataDir}, ${OTHER_OPTIONS}`
    })
  }
  const foreign = found?.uid === 0 ? found.entries.find((name) => !OWN_ENTRIES.test(name)) : undefined
  if (foreign !== undefined) {
    return yield* new EmbeddedPostgresFailed({
      phrase:
        `${dataDir} belongs to root and contains ${foreign}, which is not ours, so it is not given to ${user}: ` +
        `run chown ${user}: ${dataDir}, ${OTHER_OPTIONS}`
    })
  }
  yield* prepareDataDir(dataDir, account)
  if (found?.uid === account.uid) return
  yield* tryFileSystem(`giving ${dataDir} to ${user}`, async () => {
    for (const name of [LOG_FILE, `${LOG_FILE}.1`].filter((name) => found?.entries.includes(name) === true)) {
      const log = path.join(dataDir, name)
      if ((await lstat(log)).uid === 0) await lchown(log, account.uid, account.gid)
    }
    const directory = await open(dataDir, "r")
    try {
      await directory.chmod(0o700)
      await directory.chown(account.uid, account.gid)
    } finally {
      await directory.close()
    }
  })
})
