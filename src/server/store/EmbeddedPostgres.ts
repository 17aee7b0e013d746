import { Context, Effect, Layer, Redacted } from "effect"
import { realpath } from "node:fs/promises"
import path from "node:path"
import { serverAccount } from "./EmbeddedPostgres/Account.ts"
import { locateBinaries } from "./EmbeddedPostgres/Binaries.ts"
import { DATABASE, ensureCluster, clusterExists, prepareDataDir, ROLE } from "./EmbeddedPostgres/Cluster.ts"
import { tryFileSystem, type EmbeddedPostgresFailed } from "./EmbeddedPostgres/EmbeddedPostgresFailed.ts"
import { superviseServer } from "./EmbeddedPostgres/superviseServer.ts"
import { type ServerSettings, socketDirectory } from "./EmbeddedPostgres/Postmaster.ts"

export { EmbeddedPostgresFailed } from "./EmbeddedPostgres/EmbeddedPostgresFailed.ts"

/**
 * A PostgreSQL 18 of our own, run as a child on a socket in the data directory: the store where no `DATABASE_URL` is
 * set. As durable as any other (`fsync`, `synchronous_commit`).
 *
 * - Services on one data directory share the server; the last one that stops in order stops it.
 * - A service killed hard leaves it running, and the next start uses it.
 * - A server killed hard is started again, after its crash recovery, by a running service or by the next start.
 * - Only the holder of the password gets in: a random one, kept beside the data with mode 0600; the socket's
 *   directory is closed to other accounts, and no TCP port is opened (but on Windows, on 127.0.0.1).
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
  /** Starts or joins the server of a data directory; done when it answers. Fails with one line for the operator. */
  static readonly layer = (
    options: EmbeddedPostgresOptions
  ): Layer.Layer<EmbeddedPostgres, EmbeddedPostgresFailed> => Layer.effect(EmbeddedPostgres, make(options))
}

/** Where the embedded server lives. */
export interface EmbeddedPostgresOptions {
  /** Made where it is missing, its parents too. See `defaultDataDir`. */
  readonly dataDir: string
  /**
   * Whether commits wait for the disk. Default true. `false` is for throw-away stores of tests: a crash of the machine
   * destroys them.
   */
  readonly sync?: boolean
}

/**
 * Where data lies when `COUNTERSIGN_DATA_DIR` is unset: `.countersign` in the working directory; as root
 * `/var/lib/countersign`, because the server then runs as another account, which must be able to reach it.
 */
export const defaultDataDir = (process: {
  readonly cwd: string
  readonly uid: number | undefined
}): string => (process.uid === 0 ? "/var/lib/countersign" : path.join(process.cwd, ".countersign"))

/** Where in a data directory PostgreSQL keeps its own. */
const clusterDirectory = (dataDir: string): string => path.join(dataDir, "postgres")

/** Whether a data directory holds a store. Makes and starts nothing. */
export const embeddedStoreExists = (dataDir: string): Effect.Effect<boolean, EmbeddedPostgresFailed> =>
  clusterExists(clusterDirectory(path.resolve(dataDir)))

const make = Effect.fn("EmbeddedPostgres.make")(function* (options: EmbeddedPostgresOptions) {
  const asked = path.resolve(options.dataDir)
  const sync = options.sync ?? true
  const account = yield* serverAccount(clusterDirectory(asked))
  yield* prepareDataDir(asked, account)
  // One name for one place: what is derived from the path must agree among services that reach it by links.
  const dataDir = yield* tryFileSystem(`looking at ${asked}`, () => realpath(asked))
  const binaries = yield* locateBinaries({ dataDir, account })
  const directory = clusterDirectory(dataDir)
  const cluster = yield* ensureCluster({ dataDir, directory, binaries, account, sync })
  const host = yield* socketDirectory(directory, account)
  const settings: ServerSettings = {
    cluster,
    binaries,
    account,
    host,
    sync,
    logFile: path.join(dataDir, "postgres.log")
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

/** The host goes into the query: the authority of a URL has no room for the path of a socket. */
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
