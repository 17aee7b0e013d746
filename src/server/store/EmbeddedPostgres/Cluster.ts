import { Effect, Redacted } from "effect"
import { SecureRandom } from "effect/crypto"
import { Base64Url } from "effect/encoding"
import { chmod, chown, lstat, mkdir, open, readFile, rename, rm, stat } from "node:fs/promises"
import { createServer } from "node:net"
import path from "node:path"
import { type Account, firstBarrier } from "./Account.ts"
import type { Binaries } from "./Binaries.ts"
import { errnoCode } from "../errnoCode.ts"
import { makeDirectories } from "../makeDirectories.ts"
import { syncDirectory } from "../syncDirectory.ts"
import {
  tryFileSystem,
  OTHER_OPTIONS,
  EmbeddedPostgresFailed,
  fileSystemFailure,
  explainPostgresOutput
} from "./EmbeddedPostgresFailed.ts"
import { tempPathFor, removeStaleTempFiles } from "./tempFiles.ts"
import { runCommand } from "./runCommand.ts"

/** The role and the database of the service. The superuser `postgres` cannot log in. */
export const ROLE = "countersign"
export const DATABASE = "countersign"

/** A cluster on disk. */
export interface Cluster {
  /** PostgreSQL's own data directory, mode 0700, owned by the server's account. */
  readonly directory: string
  readonly password: Redacted.Redacted
  /** Part of the socket's name; on Windows the TCP port on 127.0.0.1. */
  readonly port: number
}

/**
 * Lets the role start a base backup and keep the write-ahead log for it, for `countersign backup`. In the database `postgres` only, where
 * nothing else connects.
 */
const BACKUP_RIGHTS =
  `ALTER ROLE ${ROLE} REPLICATION\n` +
  `GRANT EXECUTE ON FUNCTION pg_backup_start(text, boolean), pg_backup_stop(boolean) TO ${ROLE}\n`

/** Has the password of the role. */
export const PASSWORD_FILE = "countersign-password"
const PORT_FILE = "countersign-port"

/** Creates the data directory, and lets the server's account enter it, but not list it. */
export const prepareDataDir = Effect.fn("EmbeddedPostgres.prepareDataDir")(function* (
  dataDir: string,
  account: Account | undefined
): Effect.fn.Return<void, EmbeddedPostgresFailed> {
  yield* tryFileSystem(`making the data directory ${dataDir}`, async () => {
    const created = await makeDirectories(dataDir, 0o700)
    if (account === undefined) return
    const { mode, uid } = await stat(dataDir)
    if (created === undefined && uid === 0 && (mode & 0o011) !== 0o011) {
      await chmod(dataDir, (mode & 0o777) | 0o011)
    }
    // Created parents get the same mode.
    for (const folder of created === undefined ? [] : createdDirectories(created, dataDir))
      await chmod(folder, 0o711)
  })
  const barrier = account === undefined ? undefined : yield* firstBarrier(account, dataDir)
  if (barrier !== undefined) {
    return yield* new EmbeddedPostgresFailed({
      phrase:
        `PostgreSQL does not run as root, and the account it runs as (uid ${account?.uid}) cannot enter ${barrier}: ` +
        `give it permission, ${OTHER_OPTIONS}`
    })
  }
})

/** A directory, a descendant, and the directories between them. */
const createdDirectories = (outer: string, inner: string): ReadonlyArray<string> => {
  const names = path.relative(outer, inner).split(path.sep)
  // `mkdir` returned a path outside: only the data directory itself is changed.
  if (names[0] === "..") return [inner]
  return [outer, ...names.map((_, index) => path.join(outer, ...names.slice(0, index + 1)))]
}

/** Writes a file of the cluster with mode 0600 and syncs it to disk. */
const writeDurably = (file: string, content: string, account: Account | undefined) =>
  tryFileSystem(`writing ${file}`, async () => {
    const handle = await open(file, "w", 0o600)
    try {
      await handle.writeFile(content)
      if (account !== undefined) await handle.chown(account.uid, account.gid)
      await handle.sync()
    } finally {
      await handle.close()
    }
  })

/** A free TCP port. Used on Windows only. */
const freePort = Effect.callback<number, EmbeddedPostgresFailed>((resume) => {
  const server = createServer()
  server.once("error", (cause) => resume(Effect.fail(fileSystemFailure("looking for a free port", cause))))
  server.listen(0, "127.0.0.1", () => {
    const address = server.address()
    const port = address !== null && typeof address === "object" ? address.port : 0
    server.close(() => resume(Effect.succeed(port)))
  })
})

/**
 * The server's configuration files. Settings are passed at each start. Only the service's role may connect, with its password; other accounts
 * of the machine cannot enter the directory of the socket either.
 */
export const CONFIGURATION_FILES: ReadonlyMap<string, string> = new Map([
  // Its messages are read for what to do about them.
  ["postgresql.conf", "lc_messages = 'C'\n"],
  ["postgresql.auto.conf", ""],
  [
    "pg_hba.conf",
    process.platform === "win32"
      ? `host all ${ROLE} 127.0.0.1/32 scram-sha-256\n`
      : `local all ${ROLE} scram-sha-256\n`
  ],
  ["pg_ident.conf", ""]
])

/** Writes the configuration files, of a new cluster, or in place of a backup's: they can name programs that the server runs. */
export const writeConfiguration = (directory: string, account: Account | undefined) =>
  Effect.forEach(
    CONFIGURATION_FILES,
    ([name, content]) => writeDurably(path.join(directory, name), content, account),
    { discard: true }
  )

const toolFailure = (tool: string, dataDir: string, result: { code: number | undefined; output: string }) => {
  const line = result.output.split("\n").find((text) => /FATAL|error/i.test(text)) ?? result.output.trim()
  const why =
    explainPostgresOutput(result.output) ?? `it reported "${line.trim().slice(0, 300)}": fix the cause`
  return new EmbeddedPostgresFailed({
    phrase: `PostgreSQL's ${tool} failed in ${dataDir}: ${why}, ${OTHER_OPTIONS}`
  })
}

/**
 * Creates a cluster in a temporary directory and renames it as the last step. If the process is killed before, the next start removes the
 * temporary directory. If several processes do this concurrently, the first rename wins.
 */
const makeCluster = Effect.fn("EmbeddedPostgres.makeCluster")(function* (options: {
  readonly dataDir: string
  readonly directory: string
  readonly binaries: Binaries
  readonly account: Account | undefined
  readonly sync: boolean
}): Effect.fn.Return<void, EmbeddedPostgresFailed> {
  const { account, binaries, dataDir, directory } = options
  yield* removeStaleTempFiles(dataDir)
  const temporary = tempPathFor(directory)
  const steps = Effect.gen(function* () {
    yield* tryFileSystem(`making ${temporary}`, async () => {
      await mkdir(temporary, { mode: 0o700 })
      if (account !== undefined) await chown(temporary, account.uid, account.gid)
    })
    const initdb = yield* runCommand({
      command: binaries.initdb,
      args: [
        `--pgdata=${temporary}`,
        "--username=postgres",
        "--auth=reject",
        "--encoding=UTF8",
        ...localeFlags(binaries.major),
        "--no-instructions",
        ...(options.sync ? [] : ["--no-sync"])
      ],
      account,
      cwd: dataDir
    })
    if (initdb.code !== 0) return yield* toolFailure("initdb", dataDir, initdb)
    const password = yield* randomText(32)
    // `pg_monitor` allows reading statistics; CREATEDB is for the temporary databases of checks and tests.
    const roles = yield* runSingle({
      directory: temporary,
      binaries,
      account,
      sync: options.sync,
      input:
        `CREATE ROLE ${ROLE} LOGIN CREATEDB PASSWORD '${password}'\n` +
        `GRANT pg_monitor TO ${ROLE}\n` +
        `CREATE DATABASE ${DATABASE} OWNER ${ROLE}\n` +
        BACKUP_RIGHTS
    })
    if (roles.code !== 0) return yield* toolFailure("first start", dataDir, roles)
    yield* writeConfiguration(temporary, account)
    yield* writeDurably(path.join(temporary, PASSWORD_FILE), password, account)
    const port = process.platform === "win32" ? yield* freePort : 5432
    yield* writeDurably(path.join(temporary, PORT_FILE), String(port), account)
    yield* tryFileSystem(`renaming ${temporary}`, async () => {
      try {
        await rename(temporary, directory)
      } catch (cause) {
        // Another process has created the cluster concurrently; use it.
        if (errnoCode(cause) !== "ENOTEMPTY" && errnoCode(cause) !== "EEXIST" && errnoCode(cause) !== "EPERM")
          throw cause
        await stat(path.join(directory, "PG_VERSION"))
      }
    })
    yield* syncDirectory(dataDir)
  })
  yield* Effect.ensuring(
    steps,
    Effect.promise(() => rm(temporary, { recursive: true, force: true }).catch(() => {}))
  )
})

/** Settings of every start, whatever the configuration files say: nothing is archived by a command, and no library is loaded. */
export const NO_PROGRAMS = [
  "archive_mode=off",
  "shared_preload_libraries=",
  "session_preload_libraries=",
  "local_preload_libraries="
]

/** A cluster whose server does not run, for {@link runSingle}. */
interface StoppedCluster {
  readonly directory: string
  readonly binaries: Binaries
  readonly account: Account | undefined
  readonly sync: boolean
}

/** Runs statements, one a line, as the superuser, in a process that opens the cluster by itself. Recovers the cluster first if necessary. */
export const runSingle = (options: StoppedCluster & { readonly input: string }) =>
  runCommand({
    command: options.binaries.postgres,
    args: [
      "--single",
      "-D",
      options.directory,
      "-c",
      "exit_on_error=on",
      "-c",
      `fsync=${options.sync ? "on" : "off"}`,
      ...NO_PROGRAMS.flatMap((setting) => ["-c", setting]),
      "postgres"
    ],
    account: options.account,
    cwd: options.directory,
    input: options.input
  })

/**
 * A fixed locale: text sorts by code points on every machine, whatever its C library. PostgreSQL 17 and newer bring it;
 * older ones use the C library's locale of the same name.
 */
const localeFlags = (major: number): ReadonlyArray<string> =>
  major >= 17
    ? ["--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
    : ["--locale=C.UTF-8", "--locale-provider=libc"]

const randomText = (bytes: number) =>
  Effect.sync(() => Base64Url.encode(SecureRandom.randomBytesUnsafe(bytes)))

/** Whether a directory contains a cluster. */
export const clusterExists = (directory: string) =>
  tryFileSystem(`looking at ${directory}`, async () => {
    try {
      return (await lstat(path.join(directory, "PG_VERSION"))).isFile()
    } catch (cause) {
      if (errnoCode(cause) === "ENOENT") return false
      throw cause
    }
  })

/** The cluster of a data directory, created if there is none. `sync: false` is for tests only: see the layer. */
export const ensureCluster = Effect.fn("EmbeddedPostgres.ensureCluster")(function* (options: {
  readonly dataDir: string
  readonly directory: string
  readonly binaries: Binaries
  readonly account: Account | undefined
  readonly sync: boolean
}): Effect.fn.Return<Cluster, EmbeddedPostgresFailed> {
  const { dataDir, directory } = options
  if (!(yield* clusterExists(directory)) && !(yield* finishRestore(dataDir, directory))) {
    yield* makeCluster(options)
  }
  // Such as of a restore that was killed. What this account may not remove does not keep the database from starting.
  yield* Effect.ignore(removeStaleTempFiles(dataDir))
  const major = (yield* readClusterFile(directory, "PG_VERSION")).trim()
  if (major !== String(options.binaries.major)) {
    const [programs, remedy] =
      options.binaries.installedIn === undefined
        ? [
            "this version of Countersign includes",
            "start it with the version of Countersign that created it, set COUNTERSIGN_POSTGRES_BIN to the programs of " +
              `PostgreSQL ${major}`
          ]
        : ["COUNTERSIGN_POSTGRES_BIN has", `set it to the programs of PostgreSQL ${major}`]
    return yield* new EmbeddedPostgresFailed({
      phrase:
        `${directory} was created by PostgreSQL ${major}, but ${programs} PostgreSQL ${options.binaries.major}: ` +
        `${remedy}, move the data with pg_dump, ${OTHER_OPTIONS}`
    })
  }
  return yield* readCluster(directory)
})

/**
 * Where a restore puts the complete cluster before it moves the present one away. If the process is killed between these two steps, the
 * next start finds no cluster at `directory`, and takes this one.
 */
export const restoredDirectory = (directory: string): string => `${directory}.restored`

/** Completes a restore that was killed when the old cluster was already moved away. Returns whether there was one. */
export const finishRestore = Effect.fn("EmbeddedPostgres.finishRestore")(function* (
  dataDir: string,
  directory: string
): Effect.fn.Return<boolean, EmbeddedPostgresFailed> {
  const restored = restoredDirectory(directory)
  if ((yield* clusterExists(directory)) || !(yield* clusterExists(restored))) return false
  yield* tryFileSystem(`renaming ${restored}`, async () => {
    try {
      await rename(restored, directory)
    } catch (cause) {
      // Another process has done it concurrently.
      if (errnoCode(cause) !== "ENOENT" && errnoCode(cause) !== "ENOTEMPTY") throw cause
      await stat(path.join(directory, "PG_VERSION"))
    }
  })
  yield* syncDirectory(dataDir)
  return true
})

const readClusterFile = (directory: string, name: string) =>
  tryFileSystem(`reading ${path.join(directory, name)}`, () => readFile(path.join(directory, name), "utf8"))

/** An existing cluster. */
export const readCluster = Effect.fn("EmbeddedPostgres.readCluster")(function* (
  directory: string
): Effect.fn.Return<Cluster, EmbeddedPostgresFailed> {
  const password = Redacted.make((yield* readClusterFile(directory, PASSWORD_FILE)).trim(), {
    label: "embedded PostgreSQL password"
  })
  const port = Number.parseInt(yield* readClusterFile(directory, PORT_FILE), 10)
  return { directory, password, port }
})
