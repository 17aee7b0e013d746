import { PgConnection } from "@effect/sql-pg"
import { DateTime, Effect, Schema, type Scope } from "effect"
import { SecureRandom } from "effect/crypto"
import type { SqlError } from "effect/sql"
import { lstat, mkdir, readdir, readFile, realpath, rename, rm } from "node:fs/promises"
import path from "node:path"
import { VERSION } from "../../../../domain/Version.ts"
import { errnoCode } from "../../errnoCode.ts"
import { socketHost } from "../Postmaster.ts"
import { makeDirectories } from "../../makeDirectories.ts"
import { syncDirectory } from "../../syncDirectory.ts"
import type { EmbeddedPostgresFailed } from "../EmbeddedPostgresFailed.ts"
import { type Cluster, DATABASE, ROLE } from "../Cluster.ts"
import { removeStaleTempFiles, tempPathFor } from "../tempFiles.ts"
import { BackupFailed, tryFiles } from "./BackupFailed.ts"
import {
  BACKUP_FORMAT,
  BackupManifest,
  checksumLine,
  CHECKSUMS_FILE,
  CLUSTER_DIRECTORY,
  COMPRESSED_SUFFIX,
  MANIFEST_FILE,
  SIGNATURE_FILE
} from "./BackupManifest.ts"
import { type ClusterFiles, CONTROL_FILE, listClusterFiles } from "./clusterFiles.ts"
import { copyFile } from "./copyFile.ts"
import { forEachConcurrently } from "./forEachConcurrently.ts"
import { syncTree } from "./syncTree.ts"
import { parseLsn, walSegments } from "./walSegments.ts"

/** The database in which the role of the service may start a backup; see `backupRights.ts`. */
const BACKUP_DATABASE = "postgres"

/** The names of complete backups. In order of their time, and valid on every file system. */
const BACKUP_NAME = /^countersign-backup-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\dZ$/

const backupName = (millis: number): string =>
  `countersign-backup-${new Date(millis).toISOString().slice(0, 19).replaceAll(":", "-")}Z`

/** Longest wait for a connection to the local server. */
const CONNECT_TIMEOUT = "10 seconds"

/** Options of {@link makeBackup}. */
export interface BackupOptions {
  /** The directory that gets the backup. Created if it is missing. */
  readonly to: string
  readonly compress: boolean
  /** The time in the name of the backup, in milliseconds. */
  readonly now: number
  /** Signs a text with a key that is derived from the master key. */
  readonly sign: (text: string) => string
  /** Called with the copied bytes, and the bytes that the cluster had at the beginning. */
  readonly onProgress: (done: number, total: number) => void
}

/** A complete backup. */
export interface Backup {
  readonly directory: string
  readonly manifest: BackupManifest
  /** Bytes of the stored files of the cluster: less than the manifest's if they are compressed. */
  readonly storedBytes: number
}

const connect = (cluster: Cluster, database: string) =>
  Effect.flatMap(
    PgConnection.make({
      host: socketHost(cluster.directory),
      port: cluster.port,
      username: ROLE,
      password: cluster.password,
      database,
      ssl: false,
      connectTimeout: CONNECT_TIMEOUT,
      applicationName: "countersign backup"
    }),
    (session) => session.pin
  )

/** The first row of a query. Its columns are texts. */
const firstRow = <S extends Schema.Constraint>(
  connection: PgConnection.PgConnection,
  schema: S,
  statement: string,
  parameters: ReadonlyArray<unknown> = []
) =>
  Effect.flatMap(connection.query(statement, parameters), ({ rows }) =>
    Effect.orDie(Schema.decodeUnknownEffect(schema)(rows[0]))
  )

const ServerFacts = Schema.Struct({
  segment: Schema.String,
  tablespaces: Schema.Boolean
})
const Stopped = Schema.Struct({ lsn: Schema.String, label: Schema.String })
const Facts = Schema.Struct({ schema: Schema.Int, keys: Schema.Array(Schema.String) })

/** Facts of the service's database that a restore checks. */
const databaseFacts = Effect.fnUntraced(function* (cluster: Cluster) {
  const connection = yield* connect(cluster, DATABASE)
  const { exists } = yield* firstRow(
    connection,
    Schema.Struct({ exists: Schema.Boolean }),
    "SELECT to_regclass('schema_migrations') IS NOT NULL AND to_regclass('master_keys') IS NOT NULL AS exists"
  )
  if (!exists) return { schema: 0, keys: [] }
  return yield* firstRow(
    connection,
    Facts,
    `SELECT
       coalesce((SELECT max(migration_id)::int FROM schema_migrations), 0) AS schema,
       array(SELECT key_id::text FROM master_keys ORDER BY key_id) AS keys`
  )
}, Effect.scoped)

/** The content of the control file, which the server overwrites in place: read until two reads are equal. */
const readControlFile = async (file: string): Promise<Buffer> => {
  let last = await readFile(file)
  for (let attempt = 0; attempt < 100; attempt++) {
    const next = await readFile(file)
    if (next.equals(last)) return next
    last = next
  }
  throw new BackupFailed({ phrase: `${file} changes all the time: repeat the backup` })
}

/** Writes the files of a cluster into a backup, and collects their checksums. */
const makeWriter = (target: string, compress: boolean, onBytes: (done: number) => void) => {
  const lines: Array<string> = []
  let files = 0
  let bytes = 0
  let storedBytes = 0
  return {
    /** Copies a file of the cluster, or writes content in memory under its name. */
    add: async (file: string, from: string | Buffer, signal: AbortSignal): Promise<void> => {
      const stored = compress ? `${file}${COMPRESSED_SUFFIX}` : file
      let added = 0
      try {
        const copied = await copyFile(from, path.join(target, stored), {
          conversion: compress ? "compress" : "none",
          signal,
          onBytes: (more) => {
            added += more
            bytes += more
            onBytes(bytes)
          }
        })
        files++
        storedBytes += copied.storedBytes
        lines.push(checksumLine(copied.digest, `${CLUSTER_DIRECTORY}/${stored}`))
      } catch (cause) {
        bytes -= added
        await rm(path.join(target, stored), { force: true })
        throw cause
      }
    },
    written: () => ({ lines, files, bytes, storedBytes })
  }
}

type Writer = ReturnType<typeof makeWriter>

/** Copies the cluster's files except the write-ahead log, and returns its directories. The log has the files that disappear meanwhile. */
const copyCluster = async (
  cluster: string,
  target: string,
  writer: Writer,
  listed: ClusterFiles,
  signal: AbortSignal
): Promise<void> => {
  for (const directory of listed.directories) {
    await mkdir(path.join(target, directory), { mode: 0o700 })
  }
  await forEachConcurrently(listed.files, (file) =>
    writer.add(file, path.join(cluster, file), signal).catch((cause: unknown) => {
      if (errnoCode(cause) !== "ENOENT") throw cause
    })
  )
  await writer.add(CONTROL_FILE, await readControlFile(path.join(cluster, CONTROL_FILE)), signal)
}

/** Checks that the server can be backed up, and returns the size of a file of its write-ahead log. */
const checkServer = Effect.fnUntraced(function* (connection: PgConnection.PgConnection) {
  const { segment, tablespaces } = yield* firstRow(
    connection,
    ServerFacts,
    `SELECT
       (SELECT setting FROM pg_settings WHERE name = 'wal_segment_size') AS segment,
       EXISTS (SELECT FROM pg_tablespace WHERE spcname NOT LIKE 'pg\\_%') AS tablespaces`
  )
  if (tablespaces) {
    return yield* new BackupFailed({
      phrase:
        "the embedded PostgreSQL has tablespaces, which countersign backup does not copy: use pg_basebackup"
    })
  }
  return BigInt(segment)
})

/**
 * Starts a base backup. The server ends it, and drops the slot that keeps its write-ahead log, if the connection is lost.
 * Source: https://www.postgresql.org/docs/18/continuous-archiving.html#BACKUP-LOWLEVEL-BASE-BACKUP
 */
const startBackup = Effect.fnUntraced(function* (connection: PgConnection.PgConnection) {
  const slot = `countersign_backup_${Buffer.from(SecureRandom.randomBytesUnsafe(6)).toString("hex")}`
  yield* connection.query("SELECT slot_name::text FROM pg_create_physical_replication_slot($1, true, true)", [
    slot
  ])
  // The checkpoint that it waits for is written immediately instead of slowly.
  yield* connection.query("SELECT pg_backup_start($1, true)::text", [slot])
})

const LABEL = /^START WAL LOCATION: (\S+) \(file ([0-9A-F]{8})[0-9A-F]{16}\)$/m

/** The files of the write-ahead log from the start of a backup, which is in its label, to its end. */
const neededSegments = (label: string, end: string, segmentBytes: bigint): ReadonlyArray<string> => {
  const [, from = "", timeline = ""] = LABEL.exec(label) ?? []
  const [startLsn, endLsn] = [parseLsn(from), parseLsn(end)]
  if (startLsn === undefined || endLsn === undefined) {
    throw new BackupFailed({
      phrase: `PostgreSQL wrote a label without its start (${label.slice(0, 200)}): report this`
    })
  }
  return walSegments({
    timeline: Number.parseInt(timeline, 16),
    start: startLsn,
    end: endLsn,
    segmentBytes
  })
}

/** Copies the cluster of a running server into a directory, and returns its manifest and size. */
const copyRunningServer = Effect.fnUntraced(function* (
  cluster: Cluster,
  options: BackupOptions,
  directory: string
): Effect.fn.Return<Omit<Backup, "directory">, BackupFailed | SqlError.SqlError, Scope.Scope> {
  const { compress, onProgress, sign } = options
  const source = cluster.directory
  const target = path.join(directory, CLUSTER_DIRECTORY)
  const connection = yield* connect(cluster, BACKUP_DATABASE)
  const segmentBytes = yield* checkServer(connection)
  yield* startBackup(connection)
  const { listed, writer } = yield* tryFiles(`copying ${source} to ${directory}`, async (signal) => {
    await mkdir(target, { mode: 0o700 })
    const listed = await listClusterFiles(source)
    const writer = makeWriter(target, compress, (done) => onProgress(done, listed.bytes))
    await copyCluster(source, target, writer, listed, signal)
    return { listed, writer }
  })
  // The backup restores the state of its end, so its facts are read there.
  const facts = yield* databaseFacts(cluster)
  const { label, lsn } = yield* firstRow(
    connection,
    Stopped,
    "SELECT lsn::text AS lsn, labelfile AS label FROM pg_backup_stop(false)"
  )
  const completed_at = DateTime.formatIso(yield* DateTime.now)
  return yield* tryFiles(`copying ${source} to ${directory}`, async (signal) => {
    for (const segment of neededSegments(label, lsn, segmentBytes)) {
      await writer.add(`pg_wal/${segment}`, path.join(source, "pg_wal", segment), signal)
    }
    await writer.add("backup_label", Buffer.from(label), signal)
    const { bytes, files, lines, storedBytes } = writer.written()
    const manifest = BackupManifest.make({
      format: BACKUP_FORMAT,
      countersign: VERSION,
      completed_at,
      postgres_major: Number.parseInt(await readFile(path.join(source, "PG_VERSION"), "utf8"), 10),
      platform: process.platform,
      arch: process.arch,
      schema_version: facts.schema,
      master_key_ids: facts.keys,
      compression: compress ? "gzip" : "none",
      files,
      bytes,
      directories: listed.directories
    })
    const text = Buffer.from(`${JSON.stringify(manifest, null, 2)}\n`)
    const { digest } = await copyFile(text, path.join(directory, MANIFEST_FILE), { conversion: "none" })
    const checksums = [...lines.toSorted(), checksumLine(digest, MANIFEST_FILE)].join("")
    for (const [name, content] of [
      [CHECKSUMS_FILE, checksums],
      [SIGNATURE_FILE, `${sign(checksums)}\n`]
    ] as const)
      await copyFile(Buffer.from(content), path.join(directory, name), { conversion: "none" })
    await syncTree(directory)
    return { manifest, storedBytes }
  })
})

/** A path without symbolic links. Its last parts may be missing. */
const resolveMissing = async (target: string): Promise<string> => {
  try {
    return await realpath(target)
  } catch (cause) {
    const parent = path.dirname(target)
    if (errnoCode(cause) !== "ENOENT" || parent === target) throw cause
    return path.join(await resolveMissing(parent), path.basename(target))
  }
}

/** The directory of backups, as an absolute path without symbolic links. It must not be inside the data directory. */
const prepareTarget = (to: string, cluster: string) =>
  tryFiles(`making the directory ${to}`, async () => {
    const target = await resolveMissing(path.resolve(to))
    const dataDir = path.dirname(cluster)
    if (target === dataDir || target.startsWith(`${dataDir}${path.sep}`)) {
      throw new BackupFailed({
        phrase: `${to} is in the data directory ${dataDir}, and would be lost with it: name a directory elsewhere, best on another disk`
      })
    }
    await makeDirectories(target, 0o700)
    return realpath(target)
  })

/**
 * Makes a base backup of a running server. It gets its final name when it is complete and on the disk: a backup that is killed leaves a
 * temporary directory, which the next one removes. Writes go on meanwhile, and all that were acknowledged before the end are in the
 * backup.
 */
export const makeBackup = Effect.fn("EmbeddedPostgres.makeBackup")(function* (
  cluster: Cluster,
  options: BackupOptions
): Effect.fn.Return<Backup, BackupFailed | EmbeddedPostgresFailed | SqlError.SqlError> {
  const parent = yield* prepareTarget(options.to, cluster.directory)
  yield* removeStaleTempFiles(parent)
  const directory = path.join(parent, backupName(options.now))
  const temporary = tempPathFor(directory)
  const copy = Effect.gen(function* () {
    yield* tryFiles(`making ${temporary}`, () => mkdir(temporary, { mode: 0o700 }))
    const copied = yield* Effect.scoped(copyRunningServer(cluster, options, temporary))
    yield* tryFiles(`renaming ${temporary} to ${directory}`, async () => {
      if (await exists(directory))
        throw new BackupFailed({ phrase: `${directory} exists: repeat the backup` })
      await rename(temporary, directory)
    })
    yield* syncDirectory(parent)
    return { directory, ...copied }
  })
  return yield* Effect.ensuring(
    copy,
    Effect.promise(() => rm(temporary, { recursive: true, force: true }).catch(() => {}))
  )
})

const exists = (file: string): Promise<boolean> =>
  lstat(file).then(
    () => true,
    () => false
  )

/**
 * Removes the oldest complete backups beside one that was just made, except the newest `keep` with it, and returns their paths. The new one
 * stays whatever its name says: others may be named by a clock that was ahead. Each is renamed first, so that none is ever incomplete
 * under its own name.
 */
export const removeOldBackups = (
  made: string,
  keep: number
): Effect.Effect<ReadonlyArray<string>, BackupFailed> => {
  const to = path.dirname(made)
  return tryFiles(`removing old backups in ${to}`, async () => {
    const others = (await readdir(to)).filter(
      (name) => BACKUP_NAME.test(name) && name !== path.basename(made)
    )
    const old = others
      .toSorted()
      .slice(0, Math.max(0, others.length + 1 - keep))
      .map((name) => path.join(to, name))
    for (const directory of old) {
      const temporary = tempPathFor(directory)
      await rename(directory, temporary)
      await rm(temporary, { recursive: true, force: true })
    }
    return old
  })
}
