import { Clock, Effect, Schedule } from "effect"
import { spawn } from "node:child_process"
import { createHash } from "node:crypto"
import { chown, copyFile, lstat, mkdir, open, readFile, rm, stat, truncate } from "node:fs/promises"
import { connect } from "node:net"
import { tmpdir } from "node:os"
import path from "node:path"
import type { Account } from "./Account.ts"
import type { Binaries } from "./Binaries.ts"
import { type Cluster, NO_PROGRAMS } from "./Cluster.ts"
import { errnoCode } from "../errnoCode.ts"
import { tryFileSystem, EmbeddedPostgresFailed } from "./EmbeddedPostgresFailed.ts"
import { isAlive } from "./tempFiles.ts"
import { childEnvironment, runCommand } from "./runCommand.ts"

/**
 * Longest path of a socket, in bytes. macOS allows 103 and Linux 107; with one limit, a directory that works on one
 * system works on the other.
 */
const SOCKET_PATH_LIMIT = 103

/** Size at which the server's log is rotated, in bytes. One old file is kept. */
const LOG_LIMIT = 4 * 1024 * 1024

/** The name of the server's log in the data directory. */
export const LOG_FILE = "postgres.log"

/** Longest wait for a fast shutdown. It writes one checkpoint, which takes seconds on a slow disk. */
const STOP_TIMEOUT = "60 seconds"

/** How the server is started and stopped. */
export interface ServerSettings {
  readonly cluster: Cluster
  readonly binaries: Binaries
  readonly account: Account | undefined
  /** The directory of the socket, or the address on Windows. */
  readonly host: string
  readonly logFile: string
  readonly sync: boolean
}

/** The name of the socket. The port in it is always the same, except on Windows, which has no socket. */
const SOCKET_FILE = ".s.PGSQL.5432"

/** The directory of a cluster's socket, which may not exist; the address on Windows. */
export const socketHost = (directory: string): string => {
  if (process.platform === "win32") return "127.0.0.1"
  if (Buffer.byteLength(path.join(directory, SOCKET_FILE)) <= SOCKET_PATH_LIMIT) return directory
  const name = createHash("sha256").update(directory).digest("hex").slice(0, 16)
  return path.join(tmpdir(), `countersign-${name}`)
}

/**
 * The directory of the socket: the cluster itself if its path is short enough, else a directory in the system's
 * temporary directory, named by a hash of the cluster's path. The latter is rejected unless the server's account owns
 * it and no other account can enter it, so that no other account can place a socket there.
 */
export const socketDirectory = Effect.fn("EmbeddedPostgres.socketDirectory")(function* (
  directory: string,
  account: Account | undefined
): Effect.fn.Return<string, EmbeddedPostgresFailed> {
  const short = socketHost(directory)
  if (process.platform === "win32" || short === directory) return short
  const owner = account?.uid ?? process.getuid?.()
  const isPrivate = yield* tryFileSystem(`making ${short}`, async () => {
    try {
      await mkdir(short, { mode: 0o700 })
      if (account !== undefined) await chown(short, account.uid, account.gid)
    } catch (cause) {
      if (errnoCode(cause) !== "EEXIST") throw cause
    }
    const facts = await lstat(short)
    return facts.isDirectory() && facts.uid === owner && (facts.mode & 0o077) === 0
  })
  if (isPrivate) return short
  return yield* new EmbeddedPostgresFailed({
    phrase: `${short} exists and belongs to another account: remove it, or set COUNTERSIGN_DATA_DIR to a shorter path`
  })
})

/**
 * Settings that a supported version may not have, with the major version that introduced them: a server does not start
 * with an unknown one.
 */
const INTRODUCED_IN: Readonly<Record<string, number>> = { io_method: 18 }

/**
 * The server's settings, for a small service with durable commits. They are passed at every start and not written into the cluster, so that
 * the settings of a new version apply to an old cluster.
 */
const configuration = (settings: ServerSettings): ReadonlyArray<string> => {
  const onWindows = process.platform === "win32"
  const values: Readonly<Record<string, string | number>> = {
    listen_addresses: onWindows ? "127.0.0.1" : "",
    unix_socket_directories: onWindows ? "" : settings.host,
    unix_socket_permissions: "0700",
    port: settings.cluster.port,
    max_connections: 100,
    // The kernel caches the files too: a larger buffer keeps most pages in memory twice.
    shared_buffers: "32MB",
    // By default a share of `shared_buffers`, too small for a group commit of large rows.
    wal_buffers: "2MB",
    fsync: settings.sync ? "on" : "off",
    synchronous_commit: settings.sync ? "on" : "off",
    full_page_writes: settings.sync ? "on" : "off",
    // After a crash of one of its processes the server ends, and `superviseServer` starts it again. If it recovered by
    // itself and that failed too, as on a read-only disk, PostgreSQL 18 would stay without accepting connections.
    restart_after_crash: "off",
    // A base backup needs it, and a slot that keeps the log meanwhile; the server has no replicas.
    wal_level: "replica",
    max_wal_senders: 0,
    max_wal_size: "512MB",
    // Processes that nothing here needs: for logical replication, and for reading ahead of large scans.
    max_logical_replication_workers: 0,
    io_method: "sync",
    jit: "off",
    // Parallel workers need /dev/shm, which has 64 MB in a container, and no statement scans enough rows to gain from them.
    max_parallel_workers_per_gather: 0,
    max_parallel_maintenance_workers: 0,
    random_page_cost: 1.1,
    // The delivery queue produces dead rows as fast as it is written: vacuum must not wait the default minute.
    autovacuum_naptime: "10s",
    // ANALYZE keeps 300 rows in memory for each unit of this target, by default 100: up to 40 MB with rows of this service.
    default_statistics_target: 25,
    timezone: "UTC",
    log_timezone: "UTC",
    // The service reports failed statements; their text and values must not be in this log.
    log_min_messages: "log",
    log_min_error_statement: "panic",
    log_error_verbosity: "terse",
    log_checkpoints: "off",
    log_line_prefix: "%m [%p] ",
    cluster_name: "countersign"
  }
  const supported = Object.entries(values)
    .filter(([name]) => settings.binaries.major >= (INTRODUCED_IN[name] ?? 0))
    .map(([name, value]) => `${name}=${value}`)
  return [...supported, ...NO_PROGRAMS].flatMap((setting) => ["-c", setting])
}

/** Rotates the log if it exceeds its limit. The server opens it for appending, so it continues in the truncated file. */
export const trimLog = (logFile: string): Effect.Effect<void> =>
  Effect.promise(async () => {
    try {
      if ((await stat(logFile)).size <= LOG_LIMIT) return
      await copyFile(logFile, `${logFile}.1`)
      await truncate(logFile)
    } catch {
      // A missing log needs no rotation, and a failed rotation must not stop the server.
    }
  })

/** The size of the log, which is the offset of everything logged from now on; 0 if there is no log. */
export const sizeOfLog = (logFile: string): Effect.Effect<number> =>
  Effect.promise(async () => {
    try {
      return (await stat(logFile)).size
    } catch {
      return 0
    }
  })

/** The log after the offset `start`, at most the last 64 KiB; the whole log if it was rotated since. */
export const readLogFrom = (logFile: string, start: number): Effect.Effect<string> =>
  Effect.promise(async () => {
    try {
      const log = await open(logFile, "r")
      try {
        const { size } = await log.stat()
        const from = Math.max(size < start ? 0 : start, size - 65_536)
        const { buffer, bytesRead } = await log.read(Buffer.alloc(size - from), 0, size - from, from)
        return buffer.toString("utf8", 0, bytesRead)
      } finally {
        await log.close()
      }
    } catch {
      return ""
    }
  })

/** State of a starting server. `log` is its output since the start. */
export type StartState = { readonly state: "running" } | { readonly state: "ended"; readonly log: string }

/**
 * Starts a server without waiting for it, and returns an effect that reads its state. The server runs in a session of
 * its own, so that the terminal's Ctrl-C, which signals the whole foreground process group, reaches only the service,
 * which drains before it stops the server. If the service is killed, the server keeps running.
 */
export const startServer = Effect.fn("EmbeddedPostgres.startServer")(function* (
  settings: ServerSettings
): Effect.fn.Return<Effect.Effect<StartState>, EmbeddedPostgresFailed> {
  const { account, binaries, cluster, logFile } = settings
  yield* trimLog(logFile)
  const logStart = yield* sizeOfLog(logFile)
  let ended: string | undefined
  yield* Effect.acquireUseRelease(
    tryFileSystem(`opening ${logFile}`, () => open(logFile, "a", 0o600)),
    (log) =>
      tryFileSystem(`running ${binaries.postgres}`, async () => {
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
      }),
    (log) => tryFileSystem(`closing ${logFile}`, () => log.close())
  )
  return Effect.suspend(() => {
    if (ended === undefined) return Effect.succeed<StartState>({ state: "running" })
    const last = ended
    return Effect.map(readLogFrom(logFile, logStart), (text) => ({ state: "ended", log: `${text}\n${last}` }))
  })
})

const pidFile = (cluster: Pick<Cluster, "directory">) => path.join(cluster.directory, "postmaster.pid")

/** The process id in `postmaster.pid`, whether alive or not; `undefined` if there is no such file. */
const readPidFile = (cluster: Pick<Cluster, "directory">) =>
  tryFileSystem(`reading ${pidFile(cluster)}`, async () => {
    try {
      const pid = Number.parseInt(await readFile(pidFile(cluster), "utf8"), 10)
      return pid > 0 ? pid : undefined
    } catch (cause) {
      if (errnoCode(cause) === "ENOENT") return undefined
      throw cause
    }
  })

/** The command line of a process, or `undefined` if the system does not provide it. */
const commandOf = (pid: number) =>
  process.platform === "linux"
    ? Effect.promise(() => readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => undefined))
    : process.platform === "win32"
      ? Effect.undefined
      : runCommand({
          command: "ps",
          args: ["-o", "command=", "-p", String(pid)],
          account: undefined,
          capture: true
        }).pipe(Effect.map(({ code, output }) => (code === 0 ? output : undefined)))

/** A pid file that stays empty for longer, in milliseconds, is abandoned: a server fills it immediately. */
const EMPTY_PID_FILE_MILLIS = 5_000

/** Whether the pid file has been empty for too long, because the server or the machine crashed before it was written. */
const isAbandonedEmpty = Effect.fn("EmbeddedPostgres.isAbandonedEmpty")(function* (cluster: Cluster) {
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

/** Whether the process id now belongs to another program. */
const isReusedPid = Effect.fn("EmbeddedPostgres.isReusedPid")(function* (pid: number) {
  const command = yield* commandOf(pid)
  // A process that is ending, or a kernel thread, has an empty command line.
  return command !== undefined && command !== "" && !command.includes("postgres")
})

/** Whether a server accepts connections on the socket of the cluster. On Windows there is none. */
const hasOpenSocket = (directory: string) =>
  Effect.callback<boolean>((resume) => {
    const socket = connect(path.join(socketHost(directory), SOCKET_FILE))
    const end = (isOpen: boolean) => {
      socket.destroy()
      resume(Effect.succeed(isOpen))
    }
    socket.once("connect", () => end(true)).once("error", () => end(false))
    return Effect.sync(() => socket.destroy())
  })

/** Whether a server runs in the cluster, by its pid file, and by its socket: in another container its process is not visible. */
export const isServerRunning = Effect.fn("EmbeddedPostgres.isServerRunning")(function* ({
  directory
}: Pick<Cluster, "directory">) {
  const pid = yield* readPidFile({ directory })
  if (pid === undefined) return false
  return (isAlive(pid) && !(yield* isReusedPid(pid))) || (yield* hasOpenSocket(directory))
})

/**
 * Removes a stale `postmaster.pid` that would make PostgreSQL refuse to start: an empty one, or one whose process id
 * belongs to another program, as in a restarted container, where ids repeat. Orphaned server processes are safe:
 * PostgreSQL detects them by their shared memory. Returns whether a file was removed.
 */
export const removeStalePidFile = Effect.fn("EmbeddedPostgres.removeStalePidFile")(function* (
  cluster: Cluster
): Effect.fn.Return<boolean, EmbeddedPostgresFailed> {
  const pid = yield* readPidFile(cluster)
  const stale = pid === undefined ? yield* isAbandonedEmpty(cluster) : yield* isReusedPid(pid)
  if (stale) yield* tryFileSystem(`removing ${pidFile(cluster)}`, () => rm(pidFile(cluster), { force: true }))
  return stale
})

/** Stops the server by a fast shutdown, which rolls back open transactions, and waits until it has ended. */
export const stopServer = Effect.fn("EmbeddedPostgres.stopServer")(function* (settings: ServerSettings) {
  const { account, binaries, cluster } = settings
  const pid = yield* readPidFile(cluster)
  if (pid === undefined) return
  if (process.platform === "win32") {
    // Windows has no signals; `pg_ctl` stops the server there.
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
