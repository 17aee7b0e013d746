import { Effect, Redacted } from "effect"
import { SecureRandom } from "effect/crypto"
import { Base64Url } from "effect/encoding"
import { chmod, chown, lstat, mkdir, open, readFile, rename, rm, stat } from "node:fs/promises"
import { createServer } from "node:net"
import path from "node:path"
import { type Account, firstBarrier } from "./Account.ts"
import type { Binaries } from "./Binaries.ts"
import { errnoCode } from "../errnoCode.ts"
import {
  tryFileSystem,
  OTHER_OPTIONS,
  EmbeddedPostgresFailed,
  fileSystemFailure,
  explainPostgresOutput
} from "./EmbeddedPostgresFailed.ts"
import { tempPathFor, removeStaleTempFiles } from "./tempFiles.ts"
import { runCommand } from "./runCommand.ts"

/** The major version that the package carries. A cluster of another one cannot be opened. */
const MAJOR = "18"

/** The role and the database of the service. The superuser `postgres` can not log in at all. */
export const ROLE = "countersign"
export const DATABASE = "countersign"

/** What is known of a cluster before its server runs. */
export interface Cluster {
  /** PostgreSQL's own data directory, mode 0700, owned by the server's account. */
  readonly directory: string
  readonly password: Redacted.Redacted
  /** Names the socket; on Windows the TCP port on 127.0.0.1. */
  readonly port: number
}

const PASSWORD_FILE = "countersign-password"
const PORT_FILE = "countersign-port"

/** Makes the data directory, and lets the server's account pass through it (not list it). */
export const prepareDataDir = Effect.fn("EmbeddedPostgres.prepareDataDir")(function* (
  dataDir: string,
  account: Account | undefined
): Effect.fn.Return<void, EmbeddedPostgresFailed> {
  yield* tryFileSystem(`making the data directory ${dataDir}`, async () => {
    const made = await mkdir(dataDir, { recursive: true, mode: 0o700 })
    if (account === undefined) return
    const { mode, uid } = await stat(dataDir)
    if (made === undefined && uid === 0 && (mode & 0o011) !== 0o011) {
      await chmod(dataDir, (mode & 0o777) | 0o011)
    }
    // The folders above it that were missing are as closed as it is.
    for (const folder of made === undefined ? [] : createdDirectories(made, dataDir))
      await chmod(folder, 0o711)
  })
  const barrier = account === undefined ? undefined : yield* firstBarrier(account, dataDir)
  if (barrier !== undefined) {
    return yield* new EmbeddedPostgresFailed({
      phrase:
        `PostgreSQL does not run as root, and the account it runs as (uid ${account?.uid}) cannot pass ${barrier}: ` +
        `let it pass, ${OTHER_OPTIONS}`
    })
  }
})

/** A folder, one below it, and those between them. */
const createdDirectories = (outer: string, inner: string): ReadonlyArray<string> => {
  const names = path.relative(outer, inner).split(path.sep)
  // No path to it that is known: nothing else is opened.
  if (names[0] === "..") return [inner]
  return [outer, ...names.map((_, index) => path.join(outer, ...names.slice(0, index + 1)))]
}

/** Writes a file of the cluster, mode 0600, through to the disk. */
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

/** A TCP port that is free now; only asked for on Windows. */
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
 * Who may connect, and how: the one role with its password, over the one way in. Other accounts of the machine cannot
 * enter the directory of the socket, and would need the password if they could.
 */
const hostBasedAuthentication = (platform: string): string =>
  platform === "win32" ? `host all ${ROLE} 127.0.0.1/32 scram-sha-256\n` : `local all ${ROLE} scram-sha-256\n`

const failedTool = (tool: string, dataDir: string, result: { code: number | undefined; output: string }) => {
  const line = result.output.split("\n").find((text) => /FATAL|error/i.test(text)) ?? result.output.trim()
  const why = explainPostgresOutput(result.output) ?? `it said "${line.trim().slice(0, 300)}": see to it`
  return new EmbeddedPostgresFailed({
    phrase: `PostgreSQL's ${tool} failed in ${dataDir}: ${why}, ${OTHER_OPTIONS}`
  })
}

/**
 * Makes a whole cluster in a directory of its own and renames it into place as the last step: a kill on the way leaves
 * a leftover that the next start removes, never half a cluster. Of several processes that do so at once, the
 * first to rename wins.
 */
const makeCluster = Effect.fn("EmbeddedPostgres.make")(function* (options: {
  readonly dataDir: string
  readonly directory: string
  readonly binaries: Binaries
  readonly account: Account | undefined
  readonly sync: boolean
}): Effect.fn.Return<void, EmbeddedPostgresFailed> {
  const { account, binaries, dataDir, directory } = options
  yield* removeStaleTempFiles(dataDir)
  const half = tempPathFor(directory)
  const steps = Effect.gen(function* () {
    yield* tryFileSystem(`making ${half}`, async () => {
      await mkdir(half, { mode: 0o700 })
      if (account !== undefined) await chown(half, account.uid, account.gid)
    })
    const initdb = yield* runCommand({
      command: binaries.initdb,
      // One locale everywhere: text sorts the same on every machine, whatever its C library.
      args: [
        `--pgdata=${half}`,
        "--username=postgres",
        "--auth=reject",
        "--encoding=UTF8",
        "--locale=C",
        "--locale-provider=builtin",
        "--builtin-locale=C.UTF-8",
        "--no-instructions",
        ...(options.sync ? [] : ["--no-sync"])
      ],
      account,
      cwd: dataDir
    })
    if (initdb.code !== 0) return yield* failedTool("initdb", dataDir, initdb)
    const password = yield* randomText(32)
    // `pg_monitor` only reads statistics; CREATEDB makes throw-away databases for checks and tests.
    const roles = yield* runCommand({
      command: binaries.postgres,
      args: [
        "--single",
        "-D",
        half,
        "-c",
        "exit_on_error=on",
        "-c",
        `fsync=${options.sync ? "on" : "off"}`,
        "postgres"
      ],
      account,
      cwd: half,
      input:
        `CREATE ROLE ${ROLE} LOGIN CREATEDB PASSWORD '${password}'\n` +
        `GRANT pg_monitor TO ${ROLE}\n` +
        `CREATE DATABASE ${DATABASE} OWNER ${ROLE}\n`
    })
    if (roles.code !== 0) return yield* failedTool("first start", dataDir, roles)
    yield* writeDurably(path.join(half, "pg_hba.conf"), hostBasedAuthentication(process.platform), account)
    yield* writeDurably(path.join(half, PASSWORD_FILE), password, account)
    const port = process.platform === "win32" ? yield* freePort : 5432
    yield* writeDurably(path.join(half, PORT_FILE), String(port), account)
    yield* tryFileSystem(`renaming ${half}`, async () => {
      try {
        await rename(half, directory)
      } catch (cause) {
        // Another process was quicker: its cluster is the one.
        if (errnoCode(cause) !== "ENOTEMPTY" && errnoCode(cause) !== "EEXIST" && errnoCode(cause) !== "EPERM")
          throw cause
        await stat(path.join(directory, "PG_VERSION"))
      }
    })
    yield* syncDirectory(dataDir)
  })
  yield* Effect.ensuring(
    steps,
    Effect.promise(() => rm(half, { recursive: true, force: true }).catch(() => {}))
  )
})

const randomText = (bytes: number) =>
  Effect.sync(() => Base64Url.encode(SecureRandom.randomBytesUnsafe(bytes)))

/** Makes the names in a directory durable. Windows has no such call. */
export const syncDirectory = (directory: string): Effect.Effect<void, EmbeddedPostgresFailed> =>
  process.platform === "win32"
    ? Effect.void
    : tryFileSystem(`writing ${directory}`, async () => {
        const handle = await open(directory, "r")
        try {
          await handle.sync()
        } finally {
          await handle.close()
        }
      })

/** Whether a cluster is in place. */
export const clusterExists = (directory: string) =>
  tryFileSystem(`looking at ${directory}`, async () => {
    try {
      return (await lstat(path.join(directory, "PG_VERSION"))).isFile()
    } catch (cause) {
      if (errnoCode(cause) === "ENOENT") return false
      throw cause
    }
  })

/** The cluster of a data directory; made when there is none. `sync: false` is for tests alone: see the layer. */
export const ensureCluster = Effect.fn("EmbeddedPostgres.ensureCluster")(function* (options: {
  readonly dataDir: string
  readonly directory: string
  readonly binaries: Binaries
  readonly account: Account | undefined
  readonly sync: boolean
}): Effect.fn.Return<Cluster, EmbeddedPostgresFailed> {
  const { directory } = options
  if (!(yield* clusterExists(directory))) yield* makeCluster(options)
  const read = (name: string) =>
    tryFileSystem(`reading ${path.join(directory, name)}`, () => readFile(path.join(directory, name), "utf8"))
  const major = (yield* read("PG_VERSION")).trim()
  if (major !== MAJOR) {
    return yield* new EmbeddedPostgresFailed({
      phrase:
        `${directory} was made by PostgreSQL ${major}, and this version of Countersign carries PostgreSQL ${MAJOR}: ` +
        `start it with the version of Countersign that made it, move the data with pg_dump, ${OTHER_OPTIONS}`
    })
  }
  const password = Redacted.make((yield* read(PASSWORD_FILE)).trim(), {
    label: "embedded PostgreSQL password"
  })
  const port = Number.parseInt(yield* read(PORT_FILE), 10)
  return { directory, password, port }
})
