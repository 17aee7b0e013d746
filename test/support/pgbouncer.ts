import { Effect, Redacted, Schedule, type Scope } from "effect"
import { type ChildProcess, spawn, spawnSync } from "node:child_process"
import { chownSync, existsSync, mkdirSync, writeFileSync } from "node:fs"
import { createConnection } from "node:net"
import path from "node:path"
import { temporaryDirectory } from "../../scripts/chaos/faults/temporaryDirectory.ts"
import { serverAccount } from "../../src/server/store/EmbeddedPostgres/Account.ts"

/** Where Debian and others install it; it is not in the PATH of ordinary accounts. */
const directories = [...(process.env["PATH"] ?? "").split(path.delimiter), "/usr/sbin", "/usr/local/sbin"]

/** PgBouncer's program; undefined if it is not installed (`apt-get install pgbouncer`). */
export const pgbouncerProgram = directories
  .filter((directory) => directory !== "")
  .map((directory) => path.join(directory, "pgbouncer"))
  .find((program) => existsSync(program))

if (pgbouncerProgram === undefined)
  process.stderr.write("Tests through PgBouncer are skipped: pgbouncer is not installed\n")

/** The first line of `pgbouncer --version`. */
export const pgbouncerVersion = (): string =>
  spawnSync(pgbouncerProgram ?? "pgbouncer", ["--version"], { encoding: "utf8" }).stdout.split("\n")[0] ?? ""

/** A PgBouncer in transaction mode in front of a server. */
export interface PgBouncer {
  /** The URL of a database of the server, through PgBouncer. */
  readonly through: (url: Redacted.Redacted) => Redacted.Redacted
  /** Ends it at once, with all its connections. */
  readonly kill: Effect.Effect<void>
  /** Starts it again at the same address. */
  readonly start: Effect.Effect<void>
}

const PORT = 6432

const quote = (text: string): string => `'${text.replaceAll("'", "''")}'`

/**
 * Starts PgBouncer in front of the server of a URL, for all databases there and with the role of the URL. `settings` are lines of its section
 * `pgbouncer`.
 */
export const startPgBouncer = Effect.fnUntraced(function* (
  server: Redacted.Redacted,
  settings: Readonly<Record<string, string>> = {},
  /** Further parameters of every database, such as `connect_query='…'`. */
  parameters = ""
): Effect.fn.Return<PgBouncer, never, Scope.Scope> {
  const directory = yield* temporaryDirectory
  const account = yield* Effect.orDie(serverAccount(path.join(directory, "none"), undefined))
  const own = (target: string) => {
    if (account !== undefined) chownSync(target, account.uid, account.gid)
  }
  const home = path.join(directory, "pgbouncer")
  mkdirSync(home, { mode: 0o700 })
  own(home)
  const url = new URL(Redacted.value(server))
  const host = url.searchParams.get("host") ?? url.hostname
  const port = url.searchParams.get("port") ?? (url.port === "" ? "5432" : url.port)
  const user = url.searchParams.get("user") ?? decodeURIComponent(url.username)
  const password = url.searchParams.get("password") ?? decodeURIComponent(url.password)
  // PgBouncer wants one also for a server that asks for none.
  const sent = password === "" ? "unused" : password
  const file = path.join(home, "pgbouncer.ini")
  const lines = {
    pool_mode: "transaction",
    unix_socket_dir: home,
    listen_port: String(PORT),
    // The role is the one of the server's URL.
    auth_type: "any",
    max_client_conn: "2000",
    // As docs/databases.md recommends.
    server_login_retry: "1",
    server_idle_timeout: "5",
    ...settings
  }
  writeFileSync(
    file,
    [
      "[databases]",
      `* = host=${quote(host)} port=${port} user=${quote(user)} password=${quote(sent)} ${parameters}`,
      "[pgbouncer]",
      ...Object.entries(lines).map(([name, value]) => `${name} = ${value}`),
      ""
    ].join("\n"),
    { mode: 0o600 }
  )
  own(file)

  let child: ChildProcess | undefined
  const kill = Effect.callback<void>((resume) => {
    if (child === undefined || child.exitCode !== null || child.signalCode !== null)
      return resume(Effect.void)
    child.once("exit", () => resume(Effect.void))
    child.kill("SIGKILL")
  })
  const accepts = Effect.callback<boolean>((resume) => {
    const socket = createConnection(path.join(home, `.s.PGSQL.${PORT}`))
    socket.on("connect", () => {
      socket.destroy()
      resume(Effect.succeed(true))
    })
    socket.on("error", () => resume(Effect.succeed(false)))
  })
  const start = Effect.suspend(() => {
    child = spawn(pgbouncerProgram ?? "pgbouncer", ["-q", file], {
      cwd: home,
      stdio: ["ignore", "ignore", "inherit"],
      ...(account === undefined ? {} : { uid: account.uid, gid: account.gid })
    })
    return Effect.asVoid(
      Effect.repeat(accepts, { until: (accepted) => accepted, schedule: Schedule.spaced("20 millis") })
    )
  })
  yield* Effect.addFinalizer(() => kill)
  yield* start
  return {
    through: (database) => {
      const through = new URL(Redacted.value(database))
      for (const name of ["host", "port", "sslmode"]) through.searchParams.delete(name)
      const name = through.searchParams.get("dbname") ?? through.pathname.slice(1)
      const pooled = new URL(`postgres:///${name}`)
      pooled.searchParams.set("user", user)
      pooled.searchParams.set("host", home)
      pooled.searchParams.set("port", String(PORT))
      return Redacted.make(pooled.href)
    },
    kill,
    start
  }
})
