import { Effect } from "effect"
import { chmod, chown, lchown, lstat, mkdir, readdir } from "node:fs/promises"
import path from "node:path"
import { type Account, firstBarrier, serverAccount } from "./Account.ts"
import { locateBinaries } from "./Binaries.ts"
import { tryFileSystem, EmbeddedPostgresFailed, OTHER_OPTIONS } from "./EmbeddedPostgresFailed.ts"
import { LOG_FILE } from "./Postmaster.ts"

/** What this service has in a data directory: the cluster, the master key, the log, copies of the programs, and files in the making. */
const OWN_ENTRIES =
  /^(?:postgres|master-key|postgres\.log(?:\.1)?|(?:linux|darwin)-\w+-\d[\w.-]*)(?:\.new-[\w-]+)?$/

/** Gives a path to an account unless it has it already. */
const give = async (target: string, account: Account): Promise<void> => {
  const { uid } = await lstat(target)
  if (uid !== account.uid) await lchown(target, account.uid, account.gid)
}

/**
 * Prepares a data directory, as root, for a process that will have changed to the account `user`: creates it or hands it over, and makes the
 * packaged programs usable. The cluster itself must belong to the account already. A directory with files of other programs is refused,
 * because COUNTERSIGN_DATA_DIR could name any directory of the system.
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
  yield* tryFileSystem(`making the data directory ${dataDir}`, () =>
    mkdir(path.dirname(dataDir), { recursive: true, mode: 0o755 })
  )
  yield* tryFileSystem(`making the data directory ${dataDir}`, () =>
    mkdir(dataDir, { recursive: true, mode: 0o700 })
  )
  const { uid } = yield* tryFileSystem(`looking at ${dataDir}`, () => lstat(dataDir))
  const entries = yield* tryFileSystem(`reading ${dataDir}`, () => readdir(dataDir))
  const foreign = entries.find((name) => !OWN_ENTRIES.test(name))
  if (uid !== account.uid && (uid !== 0 || foreign !== undefined)) {
    const why =
      uid === 0 ? `contains ${foreign}, which is not ours` : `belongs to another account (uid ${uid})`
    return yield* new EmbeddedPostgresFailed({
      phrase: `${dataDir} ${why}, so it is not given to ${user}: run chown ${user}: ${dataDir}, ${OTHER_OPTIONS}`
    })
  }
  yield* tryFileSystem(`giving ${dataDir} to ${user}`, async () => {
    if (uid !== account.uid) {
      await chmod(dataDir, 0o700)
      await chown(dataDir, account.uid, account.gid)
    }
    for (const name of entries.filter((name) => name.startsWith(LOG_FILE)))
      await give(path.join(dataDir, name), account)
  })
  const barrier = yield* firstBarrier(account, dataDir)
  if (barrier !== undefined) {
    return yield* new EmbeddedPostgresFailed({
      phrase: `the account ${user} cannot enter ${barrier}: give it permission, ${OTHER_OPTIONS}`
    })
  }
  // Only root may be able to complete the package where npm installed it.
  yield* locateBinaries({ dataDir, account, installedIn: options.postgresBin })
})
