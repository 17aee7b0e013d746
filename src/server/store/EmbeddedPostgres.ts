import { Context, Effect, Layer, Redacted } from "effect"
import { realpath } from "node:fs/promises"
import path from "node:path"
import { serverAccount } from "./EmbeddedPostgres/Account.ts"
import { locateBinaries } from "./EmbeddedPostgres/Binaries.ts"
import { handOver } from "./EmbeddedPostgres/handOver.ts"
import {
  DATABASE,
  ensureCluster,
  clusterExists,
  PASSWORD_FILE,
  prepareDataDir,
  readCluster,
  restoredDirectory,
  ROLE
} from "./EmbeddedPostgres/Cluster.ts"
import { tryFileSystem, type EmbeddedPostgresFailed } from "./EmbeddedPostgres/EmbeddedPostgresFailed.ts"
import { type BackupOptions, makeBackup } from "./EmbeddedPostgres/backup/makeBackup.ts"
import type { BackupFailed } from "./EmbeddedPostgres/backup/BackupFailed.ts"
import {
  checkPrograms,
  type RestoredCluster,
  restoreBackup,
  type RestoreOptions
} from "./EmbeddedPostgres/backup/restoreBackup.ts"
import type { VerifiedBackup } from "./EmbeddedPostgres/backup/verifyBackup.ts"
import { writeNewestBackup } from "./dataDirectory.ts"
import { superviseServer } from "./EmbeddedPostgres/superviseServer.ts"
import { LOG_FILE, type ServerSettings, socketDirectory, socketHost } from "./EmbeddedPostgres/Postmaster.ts"

export { BackupFailed } from "./EmbeddedPostgres/backup/BackupFailed.ts"
export { removeOldBackups } from "./EmbeddedPostgres/backup/makeBackup.ts"
export { type VerifiedBackup, verifyBackup } from "./EmbeddedPostgres/backup/verifyBackup.ts"
export { findAccount, firstBarrier, OWN_ACCOUNT, requireAccount } from "./EmbeddedPostgres/Account.ts"
export { EmbeddedPostgresFailed } from "./EmbeddedPostgres/EmbeddedPostgresFailed.ts"

/**
 * A PostgreSQL that the service runs as a child process, on a socket in the data directory, if `DATABASE_URL` is unset.
 * It is as durable as any other PostgreSQL (`fsync`, `synchronous_commit`).
 *
 * - Services on one data directory share the server. It counts them by reference; the last graceful shutdown stops it.
 * - A service that is killed leaves the server running, and the next start uses it.
 * - A server that is killed is restarted by a running service or by the next start, after its crash recovery.
 * - Access needs a random password, stored in the data directory with mode 0600. The directory of the socket is closed
 *   to other accounts, and no TCP port is opened, except on Windows, on 127.0.0.1.
 */
export class EmbeddedPostgres extends Context.Service<
  EmbeddedPostgres,
  {
    /** The directory of the socket; 127.0.0.1 on Windows. */
    readonly host: string
    readonly port: number
    readonly username: string
    readonly database: string
    readonly password: Redacted.Redacted
    /** All of the above as one connection URL. */
    readonly url: Redacted.Redacted
  }
>()("countersign/server/store/EmbeddedPostgres") {
  /** Starts the server of a data directory or uses the running one, and waits until it accepts connections. */
  static readonly layer = (
    options: EmbeddedPostgresOptions
  ): Layer.Layer<EmbeddedPostgres, EmbeddedPostgresFailed> => Layer.effect(EmbeddedPostgres, make(options))
}

/** Options of the embedded server. */
export interface EmbeddedPostgresOptions {
  /** Created if it is missing, with its parents. See `defaultDataDir`. */
  readonly dataDir: string
  /**
   * Whether commits wait for the disk. Default true. `false` is for temporary databases of tests: a crash of the machine corrupts them.
   */
  readonly sync?: boolean
  /** The directory of the programs of an installed PostgreSQL, 15 or newer. Default: the programs of the npm package. */
  readonly postgresBin?: string | undefined
  /**
   * The account to run the server as, if this process is root. Default: the owner of the cluster, else `countersign`,
   * `postgres` or `nobody`.
   */
  readonly user?: string | undefined
}

/**
 * The data directory if `COUNTERSIGN_DATA_DIR` is unset: `.countersign` in the working directory; as root `/var/lib/countersign`, because
 * the server then runs as another account, which must be able to reach it.
 */
export const defaultDataDir = (process: { readonly cwd: string; readonly uid: number | undefined }): string =>
  process.uid === 0 ? "/var/lib/countersign" : path.join(process.cwd, ".countersign")

/** PostgreSQL's own directory in a data directory. */
const clusterDirectory = (dataDir: string): string => path.join(dataDir, "postgres")

/** Whether a data directory contains a PostgreSQL cluster. Creates and starts nothing. */
export const embeddedStoreExists = Effect.fnUntraced(function* (
  dataDir: string
): Effect.fn.Return<boolean, EmbeddedPostgresFailed> {
  const directory = clusterDirectory(path.resolve(dataDir))
  return (yield* clusterExists(directory)) || (yield* clusterExists(restoredDirectory(directory)))
})

/** Prepares a data directory, as root, for this process once it has changed to the account `user`. */
export const handOverDataDir = (
  options: EmbeddedPostgresOptions & { readonly user: string }
): Effect.Effect<void, EmbeddedPostgresFailed> => {
  const dataDir = path.resolve(options.dataDir)
  const { postgresBin, user } = options
  return handOver({ dataDir, cluster: clusterDirectory(dataDir), postgresBin, user })
}

/**
 * The connection URL of a data directory's server, which may not run. Neither creates nor starts anything, and a connection by this URL does
 * not keep the server running.
 */
export const embeddedServerUrl = Effect.fnUntraced(function* (
  requested: string
): Effect.fn.Return<Redacted.Redacted, EmbeddedPostgresFailed> {
  const dataDir = yield* tryFileSystem(`looking at ${requested}`, () => realpath(path.resolve(requested)))
  const { directory, password, port } = yield* readCluster(clusterDirectory(dataDir))
  return connectionUrl({ host: socketHost(directory), port, password })
})

/** The file with the password of a data directory's server. */
export const passwordPath = (dataDir: string): string =>
  path.join(clusterDirectory(path.resolve(dataDir)), PASSWORD_FILE)

/** The log of a data directory's server. */
export const serverLogPath = (dataDir: string): string => path.join(path.resolve(dataDir), LOG_FILE)

/** Backs up the running server of a data directory, and records when; see `makeBackup`. The server must be kept running meanwhile by the layer. */
export const backUp = Effect.fn("EmbeddedPostgres.backUp")(function* (
  dataDir: string,
  options: BackupOptions
) {
  const at = yield* tryFileSystem(`looking at ${dataDir}`, () => realpath(path.resolve(dataDir)))
  const backup = yield* makeBackup(yield* readCluster(clusterDirectory(at)), options)
  yield* Effect.tryPromise(() => writeNewestBackup(at, options.now)).pipe(
    Effect.catch(({ cause }) =>
      Effect.logWarning("The backup is complete, but its time could not be recorded for the metrics", cause)
    )
  )
  return backup
})

/** Restores a backup into a data directory; see `restoreBackup`. */
export const restore = Effect.fn("EmbeddedPostgres.restore")(function* (
  options: EmbeddedPostgresOptions,
  backup: VerifiedBackup,
  { force, now, onProgress }: RestoreOptions
): Effect.fn.Return<RestoredCluster, BackupFailed | EmbeddedPostgresFailed> {
  const requested = path.resolve(options.dataDir)
  const account = yield* serverAccount(clusterDirectory(requested), options.user)
  yield* prepareDataDir(requested, account)
  const dataDir = yield* tryFileSystem(`looking at ${requested}`, () => realpath(requested))
  const binaries = yield* locateBinaries({ dataDir, account, installedIn: options.postgresBin })
  yield* checkPrograms(backup.manifest, binaries)
  return yield* restoreBackup(
    { dataDir, directory: clusterDirectory(dataDir), binaries, account, sync: options.sync ?? true },
    backup,
    { force, now, onProgress }
  )
})

const make = Effect.fn("EmbeddedPostgres.make")(function* (options: EmbeddedPostgresOptions) {
  const requested = path.resolve(options.dataDir)
  const sync = options.sync ?? true
  const account = yield* serverAccount(clusterDirectory(requested), options.user)
  yield* prepareDataDir(requested, account)
  // Services that reach the directory by different symbolic links must derive the same names from its path.
  const dataDir = yield* tryFileSystem(`looking at ${requested}`, () => realpath(requested))
  const binaries = yield* locateBinaries({ dataDir, account, installedIn: options.postgresBin })
  const directory = clusterDirectory(dataDir)
  const cluster = yield* ensureCluster({ dataDir, directory, binaries, account, sync })
  const host = yield* socketDirectory(directory, account)
  const settings: ServerSettings = {
    cluster,
    binaries,
    account,
    host,
    sync,
    logFile: path.join(dataDir, LOG_FILE)
  }
  yield* superviseServer(settings)
  return EmbeddedPostgres.of({
    host,
    port: cluster.port,
    username: ROLE,
    database: DATABASE,
    password: cluster.password,
    url: connectionUrl({ host, port: cluster.port, password: cluster.password })
  })
})

/** The host is a query parameter, because the authority of a URL cannot contain the path of a socket. */
const connectionUrl = (facts: {
  readonly host: string
  readonly port: number
  readonly password: Redacted.Redacted
}): Redacted.Redacted => {
  const query = new URLSearchParams({
    host: facts.host,
    port: String(facts.port),
    user: ROLE,
    password: Redacted.value(facts.password),
    sslmode: "disable"
  })
  return Redacted.make(`postgresql:///${DATABASE}?${query.toString()}`, { label: "embedded PostgreSQL URL" })
}
