import { Clock, Effect, Schedule } from "effect"
import { spawn } from "node:child_process"
import { createHash } from "node:crypto"
import { chown, copyFile, lstat, mkdir, open, readFile, rm, stat, truncate } from "node:fs/promises"
import { tmpdir } from "node:os"
import path from "node:path"
import type { Account } from "./Account.ts"
import type { Binaries } from "./Binaries.ts"
import type { Cluster } from "./Cluster.ts"
import { errnoCode } from "../errnoCode.ts"
import { tryFileSystem, EmbeddedPostgresFailed } from "./EmbeddedPostgresFailed.ts"
import { isAlive } from "./tempFiles.ts"
import { childEnvironment, runCommand } from "./runCommand.ts"

/**
 * Longest path of a socket, in bytes: macOS has room for 103, Linux for 107; the same limit everywhere keeps a
 * directory that works on one working on the other.
 */
const SOCKET_PATH_LIMIT = 103

/** Where the server's log is cut: the file before the cut is kept once, beside it. In bytes. */
const LOG_LIMIT = 4 * 1024 * 1024

/** Longest wait for an orderly stop. A fast stop writes one checkpoint: seconds on a slow disk. */
const STOP_TIMEOUT = "60 seconds"

/** What starting and stopping the server needs to know. */
export interface ServerSettings {
  readonly cluster: Cluster
  readonly binaries: Binaries
  readonly account: Account | undefined
  /** Where the socket lies, or the address on Windows. */
  readonly host: string
  readonly logFile: string
  readonly sync: boolean
}

/**
 * The directory of the socket: the cluster itself, where its path is short enough; else a directory under the
 * system's temporary one, named by a hash of the cluster's path. That one is refused unless the server's
 * account owns it and no other can enter, so nobody else can lay a socket of their own there.
 */
export const socketDirectory = Effect.fn("EmbeddedPostgres.socketDirectory")(function* (
  directory: string,
  account: Account | undefined
): Effect.fn.Return<string, EmbeddedPostgresFailed> {
  if (process.platform === "win32") return "127.0.0.1"
  if (Buffer.byteLength(path.join(directory, ".s.PGSQL.5432")) <= SOCKET_PATH_LIMIT) return directory
  const name = createHash("sha256").update(directory).digest("hex").slice(0, 16)
  const short = path.join(tmpdir(), `countersign-${name}`)
  const owner = account?.uid ?? process.getuid?.()
  const fine = yield* tryFileSystem(`making ${short}`, async () => {
    try {
      await mkdir(short, { mode: 0o700 })
      if (account !== undefined) await chown(short, account.uid, account.gid)
    } catch (cause) {
      if (errnoCode(cause) !== "EEXIST") throw cause
    }
    const facts = await lstat(short)
    return facts.isDirectory() && facts.uid === owner && (facts.mode & 0o077) === 0
  })
  if (fine) return short
  return yield* new EmbeddedPostgresFailed({
    phrase: `${short} is there and belongs to somebody else: remove it, or set COUNTERSIGN_DATA_DIR to a shorter path`
  })
})

/**
 * The server's settings, for a small service that wants its commits on the disk. They are given at every start, not
 * written into the cluster, so a new version's settings reach an old cluster.
 */
const configuration = (settings: ServerSettings): ReadonlyArray<string> => {
  const onWindows = process.platform === "win32"
  const values: Readonly<Record<string, string | number>> = {
    listen_addresses: onWindows ? "127.0.0.1" : "",
    unix_socket_directories: onWindows ? "" : settings.host,
    unix_socket_permissions: "0700",
    port: settings.cluster.port,
    max_connections: 100,
    shared_buffers: "64MB",
    fsync: settings.sync ? "on" : "off",
    synchronous_commit: settings.sync ? "on" : "off",
    full_page_writes: settings.sync ? "on" : "off",
    // No copy of this server is ever fed from it.
    wal_level: "minimal",
    max_wal_senders: 0,
    max_wal_size: "512MB",
    jit: "off",
    // Parallel workers want /dev/shm, which is 64 MB in a container; nothing here scans enough to gain by them.
    max_parallel_workers_per_gather: 0,
    max_parallel_maintenance_workers: 0,
    random_page_cost: 1.1,
    // The delivery queue is emptied as fast as it fills: its dead rows should not wait a minute.
    autovacuum_naptime: "10s",
    timezone: "UTC",
    log_timezone: "UTC",
    // Failed statements are the service's to report; their text and values stay out of this log.
    log_min_messages: "log",
    log_min_error_statement: "panic",
    log_error_verbosity: "terse",
    log_checkpoints: "off",
    log_line_prefix: "%m [%p] ",
    cluster_name: "countersign"
  }
  return Object.entries(values).flatMap(([name, value]) => ["-c", `${name}=${value}`])
}

/** Cuts the log where it has grown past its limit. The server appends, so it goes on at the new end. */
export const trimLog = (logFile: string): Effect.Effect<void> =>
  Effect.promise(async () => {
    try {
      if ((await stat(logFile)).size <= LOG_LIMIT) return
      await copyFile(logFile, `${logFile}.1`)
      await truncate(logFile)
    } catch {
      // A log that is not there yet needs no trimming, and one that cannot be trimmed must not stop the store.
    }
  })

/** How an attempt to start has gone so far. Where the child has ended, `log` is what it wrote. */
export type StartState = { readonly state: "running" } | { readonly state: "ended"; readonly log: string }

/**
 * Starts a server and does not wait. It is a session of its own: the terminal's Ctrl-C, which reaches every process of
 * the foreground group, is for the service alone, which drains first and stops the server then. It outlives
 * the service where that is killed. Answers with a look at how it goes.
 */
export const startServer = Effect.fn("EmbeddedPostgres.start")(function* (
  settings: ServerSettings
): Effect.fn.Return<Effect.Effect<StartState>, EmbeddedPostgresFailed> {
  const { account, binaries, cluster, logFile } = settings
  yield* trimLog(logFile)
  const log = yield* tryFileSystem(`opening ${logFile}`, () => open(logFile, "a", 0o600))
  const began = yield* tryFileSystem(`opening ${logFile}`, async () => (await log.stat()).size)
  let ended: string | undefined
  yield* tryFileSystem(`running ${binaries.postgres}`, async () => {
    const child = spawn(binaries.postgres, ["-D", cluster.directory, ...configuration(settings)], {
      cwd: cluster.directory,
      detached: true,
      windowsHide: true,
      env: childEnvironment(),
      stdio: ["ignore", log.fd, log.fd],
      ...(account === undefined ? {} : { uid: account.uid, gid: account.gid })
    })
    child.once("error", (cause) => {
      ended = `FATAL:  could not be run: ${cause.message}`
    })
    child.once("exit", (code, signal) => {
      ended ??= `exit ${code ?? signal}`
    })
    child.unref()
  })
  yield* tryFileSystem(`closing ${logFile}`, () => log.close())
  return Effect.suspend(() => {
    if (ended === undefined) return Effect.succeed<StartState>({ state: "running" })
    const last = ended
    return Effect.promise(() => readFile(logFile, "utf8").catch(() => "")).pipe(
      Effect.map((text): StartState => ({ state: "ended", log: `${text.slice(began)}\n${last}` }))
    )
  })
})

const pidFile = (cluster: Cluster) => path.join(cluster.directory, "postmaster.pid")

/** The process id in `postmaster.pid`, alive or not; `undefined` where no server has a claim. */
const readPidFile = (cluster: Cluster) =>
  tryFileSystem(`reading ${pidFile(cluster)}`, async () => {
    try {
      const pid = Number.parseInt(await readFile(pidFile(cluster), "utf8"), 10)
      return pid > 0 ? pid : undefined
    } catch (cause) {
      if (errnoCode(cause) === "ENOENT") return undefined
      throw cause
    }
  })

/** The command line of a process, or `undefined` where the system does not tell. */
const commandOf = (pid: number) =>
  process.platform === "linux"
    ? Effect.promise(() => readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => undefined))
    : process.platform === "win32"
      ? Effect.as(Effect.void, undefined)
      : runCommand({
          command: "ps",
          args: ["-o", "command=", "-p", String(pid)],
          account: undefined,
          capture: true
        }).pipe(Effect.map(({ code, output }) => (code === 0 ? output : undefined)))

/** How long a server may take from making its pid file to filling it in, in milliseconds: it takes none to speak of. */
const EMPTY_PID_FILE_MILLIS = 5_000

/** Whether the pid file has been empty for too long: its server, or the machine, stopped before it was filled in. */
const isAbandonedEmpty = Effect.fn("EmbeddedPostgres.isLeftEmpty")(function* (cluster: Cluster) {
  const now = yield* Clock.currentTimeMillis
  return yield* tryFileSystem(`looking at ${pidFile(cluster)}`, async () => {
    try {
      const { mtimeMs, size } = await stat(pidFile(cluster))
      return size === 0 && now - mtimeMs > EMPTY_PID_FILE_MILLIS
    } catch (cause) {
      if (errnoCode(cause) === "ENOENT") return false
      throw cause
    }
  })
})

/** Whether the pid file names a process that lives and is another program. */
const isReusedPid = Effect.fn("EmbeddedPostgres.isForeign")(function* (cluster: Cluster) {
  const pid = yield* readPidFile(cluster)
  if (pid === undefined || !isAlive(pid)) return false
  const command = yield* commandOf(pid)
  // An empty command line is a process that is ending, or one of the kernel's.
  return command !== undefined && command !== "" && !command.includes("postgres")
})

/**
 * Removes a `postmaster.pid` that is no server's and that PostgreSQL itself respects for ever: an empty one, or one whose
 * process is another program (in a container that was restarted, ids come again). Server processes that lost their parent
 * are still seen by PostgreSQL, by the memory they share. Answers whether there was one.
 */
export const removeStalePidFile = Effect.fn("EmbeddedPostgres.removeStaleClaim")(function* (
  cluster: Cluster
): Effect.fn.Return<boolean, EmbeddedPostgresFailed> {
  const stale = (yield* isAbandonedEmpty(cluster)) || (yield* isReusedPid(cluster))
  if (stale) yield* tryFileSystem(`removing ${pidFile(cluster)}`, () => rm(pidFile(cluster), { force: true }))
  return stale
})

/** Stops the server in order (a fast stop: open transactions are rolled back) and waits until it is gone. */
export const stopServer = Effect.fn("EmbeddedPostgres.stop")(function* (settings: ServerSettings) {
  const { account, binaries, cluster } = settings
  const pid = yield* readPidFile(cluster)
  if (pid === undefined) return
  if (process.platform === "win32") {
    // Windows has no signals: the server's own tool speaks to it.
    yield* runCommand({
      command: binaries.pgCtl,
      args: ["stop", "-D", cluster.directory, "-m", "fast"],
      account
    })
    return
  }
  yield* Effect.sync(() => {
    if (isAlive(pid)) process.kill(pid, "SIGINT")
  })
  yield* readPidFile(cluster).pipe(
    Effect.repeat({ schedule: Schedule.spaced("10 millis"), while: (now) => now === pid && isAlive(pid) }),
    Effect.timeoutOrElse({
      duration: STOP_TIMEOUT,
      orElse: () => Effect.logWarning(`PostgreSQL (process ${pid}) is still stopping after ${STOP_TIMEOUT}`)
    })
  )
})
