import { PgConnection } from "@effect/sql-pg"
import { Effect, Redacted, Schedule, type Scope } from "effect"
import type { SqlError } from "effect/sql"
import { type ChildProcess, spawn } from "node:child_process"
import { appendFileSync, chownSync, mkdirSync, openSync, rmSync, writeFileSync } from "node:fs"
import path from "node:path"
import type { Account } from "../../../src/server/store/EmbeddedPostgres/Account.ts"
import { serverAccount } from "../../../src/server/store/EmbeddedPostgres/Account.ts"
import { type Binaries, locateBinaries } from "../../../src/server/store/EmbeddedPostgres/Binaries.ts"
import { childEnvironment, runCommand } from "../../../src/server/store/EmbeddedPostgres/runCommand.ts"
import { processesIn, sendSignal } from "./processes.ts"

/** The programs of PostgreSQL and the account to run them as. */
export interface Programs {
  readonly binaries: Binaries
  readonly account: Account | undefined
}

/** The embedded PostgreSQL's programs, or those of COUNTERSIGN_POSTGRES_BIN. They may be copied into `directory`. */
export const findPrograms = Effect.fnUntraced(function* (directory: string) {
  const account = yield* serverAccount(path.join(directory, "none"), undefined)
  const binaries = yield* locateBinaries({
    dataDir: directory,
    account,
    installedIn: process.env["COUNTERSIGN_POSTGRES_BIN"]
  })
  return { account, binaries }
}, Effect.orDie)

/** A PostgreSQL server without authentication, on a socket that only its account can reach. */
export interface PostgresServer {
  /** Its data directory. */
  readonly directory: string
  /** The path of its socket. */
  readonly socket: string
  /** Starts it with these settings, and waits until it accepts connections. */
  readonly start: (settings: Readonly<Record<string, string>>) => Effect.Effect<void>
  /** Runs a statement as the superuser. */
  readonly query: (
    statement: string
  ) => Effect.Effect<ReadonlyArray<Readonly<Record<string, unknown>>>, SqlError.SqlError>
  /** Several statements on one connection, with the superuser's rights. */
  readonly session: Effect.Effect<PgConnection.PgConnection, SqlError.SqlError, Scope.Scope>
  /** Kills the server with all its processes. */
  readonly kill: Effect.Effect<void>
  /** Stops it in order (fast shutdown). */
  readonly stop: Effect.Effect<void>
}

/** Settings of every server: small, and durable. */
const settingsOf = (socketDirectory: string): Readonly<Record<string, string>> => ({
  listen_addresses: "",
  unix_socket_directories: socketDirectory,
  unix_socket_permissions: "0700",
  port: "5432",
  shared_buffers: "32MB",
  max_connections: "100",
  wal_level: "replica",
  max_wal_senders: "10",
  wal_keep_size: "512MB",
  hot_standby: "on",
  timezone: "UTC"
})

const SUPERUSER = "postgres"

/** Describes the server of a data directory. It is killed when the scope closes. */
export const makeServer = (
  { account, binaries }: Programs,
  directory: string,
  environment: Readonly<Record<string, string>> = {}
): Effect.Effect<PostgresServer, never, Scope.Scope> =>
  Effect.gen(function* () {
    let child: ChildProcess | undefined
    const query = (database: string) => (statement: string) =>
      Effect.scoped(Effect.flatMap(connect(database), (connection) => connection.query(statement))).pipe(
        Effect.map(({ rows }) => rows)
      )
    const connect = (database: string) =>
      PgConnection.make({
        host: directory,
        port: 5432,
        username: SUPERUSER,
        password: Redacted.make(""),
        database,
        ssl: false,
        connectTimeout: "5 seconds"
      })
    const ended = Effect.sync(() => processesIn(directory).length === 0).pipe(
      Effect.repeat({ until: (none) => none, schedule: Schedule.spaced("20 millis") })
    )
    const kill = Effect.suspend(() => {
      for (const pid of processesIn(directory)) sendSignal(pid, "SIGKILL")
      return Effect.asVoid(ended)
    })
    yield* Effect.addFinalizer(() => kill)
    return {
      directory,
      socket: path.join(directory, ".s.PGSQL.5432"),
      start: (settings) =>
        Effect.gen(function* () {
          const log = openSync(`${directory}.log`, "a", 0o600)
          const args = Object.entries({ ...settingsOf(directory), ...settings }).flatMap(([name, value]) => [
            "-c",
            `${name}=${value}`
          ])
          child = spawn(binaries.postgres, ["-D", directory, ...args], {
            cwd: directory,
            env: { ...childEnvironment(), ...environment },
            stdio: ["ignore", log, log],
            ...(account === undefined ? {} : { uid: account.uid, gid: account.gid })
          })
          yield* Effect.retry(query("postgres")("SELECT 1"), {
            schedule: Schedule.spaced("50 millis"),
            times: 1_200
          })
        }).pipe(Effect.orDie),
      query: query("countersign"),
      session: connect("countersign"),
      kill,
      stop: Effect.suspend(() => {
        if (child?.pid !== undefined) sendSignal(child.pid, "SIGINT")
        return Effect.asVoid(ended)
      })
    }
  })

const own = (target: string, account: Account | undefined) => {
  if (account !== undefined) chownSync(target, account.uid, account.gid)
}

/** Creates a cluster with an empty database and role of Countersign. */
export const createCluster = Effect.fnUntraced(function* (
  { account, binaries }: Programs,
  directory: string
) {
  mkdirSync(directory, { mode: 0o700 })
  own(directory, account)
  const run = Effect.fnUntraced(function* (command: string, args: ReadonlyArray<string>, input?: string) {
    const { code, output } = yield* runCommand({
      command,
      args,
      account,
      cwd: directory,
      ...(input === undefined ? {} : { input })
    })
    if (code !== 0) throw new Error(output)
  })
  yield* run(binaries.initdb, [
    `--pgdata=${directory}`,
    `--username=${SUPERUSER}`,
    "--auth=trust",
    "--encoding=UTF8",
    "--locale=C.UTF-8",
    "--no-instructions",
    // Only a crash of the machine would need it.
    "--no-sync"
  ])
  writeFileSync(path.join(directory, "pg_hba.conf"), "local all all trust\nlocal replication all trust\n")
  yield* run(
    binaries.postgres,
    ["--single", "-D", directory, "-c", "exit_on_error=on", "postgres"],
    "CREATE ROLE countersign LOGIN\nCREATE DATABASE countersign OWNER countersign\n"
  )
})

/** Files of a running server that its copy must not have. The write-ahead log comes from the primary. */
const NOT_COPIED = [
  "postmaster.pid",
  "postmaster.opts",
  ".s.PGSQL.5432",
  ".s.PGSQL.5432.lock",
  "standby.signal",
  "pg_wal"
]

/**
 * Makes a standby of a running primary by a base backup over SQL, so that no program is needed that the embedded
 * PostgreSQL lacks (`pg_basebackup`).
 */
export const createStandby = Effect.fnUntraced(function* (
  { account }: Programs,
  primary: PostgresServer,
  directory: string,
  name: string
) {
  rmSync(directory, { recursive: true, force: true })
  mkdirSync(directory, { mode: 0o700 })
  own(directory, account)
  const label = yield* Effect.scoped(
    Effect.gen(function* () {
      const session = yield* primary.session
      yield* session.query("SELECT pg_backup_start('standby', true)::text")
      const copy = yield* runCommand({
        command: "cp",
        args: ["-a", `${primary.directory}/.`, directory],
        account
      })
      // Files that the primary removes meanwhile are not part of the backup.
      const failed = copy.output
        .split("\n")
        .filter((line) => line !== "" && !/No such file or directory/.test(line))
      if (failed.length > 0) throw new Error(failed.join("\n"))
      const { rows } = yield* session.query("SELECT labelfile FROM pg_backup_stop(false)")
      return String(rows[0]?.["labelfile"])
    })
  ).pipe(Effect.orDie)
  for (const file of NOT_COPIED) rmSync(path.join(directory, file), { recursive: true, force: true })
  mkdirSync(path.join(directory, "pg_wal"), { mode: 0o700 })
  writeFileSync(path.join(directory, "backup_label"), label)
  writeFileSync(path.join(directory, "standby.signal"), "")
  for (const file of ["backup_label", "standby.signal", "pg_wal"]) own(path.join(directory, file), account)
  appendFileSync(
    path.join(directory, "postgresql.conf"),
    `\nprimary_conninfo = 'host=${primary.directory} port=5432 user=${SUPERUSER} application_name=${name}'\n`
  )
})
