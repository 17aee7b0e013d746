/** Test fixtures of benchmarks: a temporary PostgreSQL server, and the service as a separate process. */
import { PgConnection } from "@effect/sql-pg"
import { Effect, ManagedRuntime, Redacted } from "effect"
import { type ChildProcess, spawn } from "node:child_process"
import { randomBytes } from "node:crypto"
import { once } from "node:events"
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs"
import { createServer } from "node:net"
import { tmpdir } from "node:os"
import path from "node:path"
import * as ApiKeyFormat from "../../src/domain/identity/ApiKeyFormat.ts"
import * as Database from "../../src/server/store/Database.ts"
import { EmbeddedPostgres } from "../../src/server/store/EmbeddedPostgres.ts"
import { migrate } from "../../src/server/store/migrate.ts"
import { nodeFlags } from "../nodeFlags.js"
import { setup } from "../setup.js"

/** A free loopback port. */
export const freePort = async (): Promise<number> => {
  const server = createServer().listen(0, "127.0.0.1")
  await once(server, "listening")
  const address = server.address()
  server.close()
  return typeof address === "object" && address !== null ? address.port : 0
}

/** A PostgreSQL server with production durability settings. Its files are deleted on disposal. */
export interface Store {
  readonly url: Redacted.Redacted
  /** Creates a migrated database and returns its URL. */
  readonly database: (name: string) => Promise<Redacted.Redacted>
  /** Creates an empty database, or a copy of one without connections, and returns its URL. The service migrates it when it starts. */
  readonly create: (name: string, template?: string) => Promise<Redacted.Redacted>
  /**
   * Processor time of all server processes so far, in seconds, without the present connections to the databases `except`: what another
   * side does in its own database while it is not measured. Linux only, else NaN.
   */
  readonly processorSeconds: (except?: ReadonlyArray<string>) => number
  /**
   * Memory of all server processes in MB, without the private memory of the processes `except`; each page that they share counts once
   * (PSS). Linux only, else NaN.
   */
  readonly megabytes: (except?: ReadonlyArray<number>) => number
  readonly dispose: () => Promise<void>
}

/** Starts a PostgreSQL in a temporary directory. */
export const startStore = async (): Promise<Store> => {
  const dataDir = mkdtempSync(path.join(tmpdir(), "countersign-bench-"))
  const runtime = ManagedRuntime.make(EmbeddedPostgres.layer({ dataDir }))
  const { url } = await runtime.runPromise(EmbeddedPostgres)
  const pid = Number.parseInt(readFileSync(path.join(dataDir, "postgres", "postmaster.pid"), "utf8"), 10)
  const named = (name: string) => {
    const other = new URL(Redacted.value(url))
    other.pathname = `/${name}`
    return Redacted.make(other.href)
  }
  const create = async (name: string, template?: string) => {
    const statement = `CREATE DATABASE ${name}${template === undefined ? "" : ` TEMPLATE ${template}`}`
    await Effect.runPromise(
      Effect.scoped(Effect.flatMap(PgConnection.make({ url }), (connection) => connection.query(statement)))
    )
    return named(name)
  }
  return {
    url,
    database: async (name) => {
      await create(name)
      await Effect.runPromise(Effect.provide(migrate, Database.layer({ url: named(name) })))
      return named(name)
    },
    create,
    processorSeconds: (except = []) => secondsOfFamily(pid, except),
    megabytes: (except) => residentShare(pid, except),
    dispose: async () => {
      await runtime.dispose()
      rmSync(dataDir, { recursive: true, force: true })
    }
  }
}

/** Unit of the times in `/proc`, in ticks per second. Linux reports 100 whatever the kernel's own tick rate is. */
const TICKS = 100

/**
 * Processor seconds of a process, its children, and its children's terminated children. Leaves out PostgreSQL's
 * connections to the databases `except`, which PostgreSQL names in the command line of their process.
 */
const secondsOfFamily = (parent: number, except: ReadonlyArray<string>): number => {
  let ticks = Number.NaN
  try {
    ticks = 0
    for (const name of readdirSync("/proc")) {
      if (!/^\d+$/.test(name)) continue
      const fields = statOf(name)
      if (Number(name) === parent) for (const at of [11, 12, 13, 14]) ticks += Number(fields[at])
      else if (Number(fields[1]) === parent && !(except.length > 0 && isConnectedTo(name, except))) {
        ticks += Number(fields[11]) + Number(fields[12])
      }
    }
  } catch {
    return Number.NaN
  }
  return ticks / TICKS
}

/** Whether a PostgreSQL process serves a connection to one of these databases. */
const isConnectedTo = (pid: string, databases: ReadonlyArray<string>): boolean => {
  try {
    const words = readFileSync(`/proc/${pid}/cmdline`, "utf8").split(/[ \0]/)
    return databases.some((database) => words.includes(database))
  } catch {
    return false
  }
}

/**
 * Memory of a process and its children in MB; each page that they share with others counts by their share of it (PSS). Of the children
 * `except`, only their share of shared pages counts: without these processes, it would be that of the others. Linux only, else NaN.
 */
export const residentShare = (parent: number, except: ReadonlyArray<number> = []): number => {
  let kilobytes = Number.NaN
  try {
    kilobytes = 0
    for (const name of readdirSync("/proc")) {
      if (!/^\d+$/.test(name)) continue
      if (Number(name) !== parent && Number(statOf(name)[1]) !== parent) continue
      const rollup = readFileSync(`/proc/${name}/smaps_rollup`, "utf8")
      const sizeOf = (field: "Pss" | "Pss_Anon") =>
        Number(new RegExp(`^${field}:\\s+(\\d+) kB`, "m").exec(rollup)?.[1])
      kilobytes += sizeOf("Pss") - (except.includes(Number(name)) ? sizeOf("Pss_Anon") : 0)
    }
  } catch {
    return Number.NaN
  }
  return kilobytes / 1024
}

/** The fields of `/proc/PID/stat` from the state on. Empty if the process has ended. */
const statOf = (pid: string): ReadonlyArray<string> => {
  try {
    return readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]?.split(" ") ?? []
  } catch {
    return []
  }
}

/** Stops processes and waits for their end, so that none of them misses the database that is stopped next. */
export const stopAll = async (children: ReadonlyArray<ChildProcess>): Promise<void> => {
  const running = children.filter(({ exitCode, signalCode }) => exitCode === null && signalCode === null)
  const ended = running.map((child) => once(child, "exit"))
  for (const child of running) child.kill("SIGTERM")
  await Promise.all(ended)
}

/** The service in a child process. */
export interface Service {
  readonly pid: number
  readonly port: number
  /** An admin API key. */
  readonly key: string
  readonly child: ChildProcess
  readonly ended: Promise<unknown>
}

/**
 * Starts `countersign serve` as `npm start` does, on a database, and waits until it is ready. `BENCH_MAIN` names the
 * entry point of another build. With `BENCH_PROFILE`, the service writes a processor profile into that directory when
 * it ends.
 */
export const startService = async (
  databaseUrl: Redacted.Redacted,
  environment: Readonly<Record<string, string>> = {},
  main: string = process.env["BENCH_MAIN"] ?? setup() ?? "src/main.ts"
): Promise<Service> => {
  const { key } = await Effect.runPromise(ApiKeyFormat.generateApiKey)
  const port = await freePort()
  const profiles = process.env["BENCH_PROFILE"]
  const profiling = profiles === undefined ? [] : ["--cpu-prof", `--cpu-prof-dir=${profiles}`]
  const child = spawn(process.execPath, [...nodeFlags, ...profiling, main, "serve"], {
    stdio: ["ignore", "pipe", "inherit"],
    env: {
      PATH: process.env["PATH"],
      NODE_ENV: "production",
      // A container may have only root; the account does not affect the measurement.
      COUNTERSIGN_USER: "root",
      PORT: String(port),
      DATABASE_URL: Redacted.value(databaseUrl),
      COUNTERSIGN_MASTER_KEY: randomBytes(32).toString("base64"),
      COUNTERSIGN_ADMIN_KEY: Redacted.value(key),
      // On by default in production; off as in earlier measurements, and because the other side logs nothing.
      COUNTERSIGN_LOG_REQUESTS: "false",
      COUNTERSIGN_RATE_LIMIT_PER_SECOND: "0",
      COUNTERSIGN_ORGANIZATION_RATE_LIMIT_PER_SECOND: "0",
      // A run opens more sessions than an organization may have; counting them is still measured.
      COUNTERSIGN_OPEN_SESSION_LIMIT: "1000000",
      COUNTERSIGN_NOTIFY_TESTS_PER_MINUTE: "0",
      COUNTERSIGN_NOTIFY_HOST_RATE_PER_SECOND: "0",
      COUNTERSIGN_NOTIFY_HOST_TOTAL_RATE_PER_SECOND: "0",
      COUNTERSIGN_NOTIFY_NETWORK_RATE_PER_SECOND: "0",
      COUNTERSIGN_NOTIFY_NETWORK_TOTAL_RATE_PER_SECOND: "0",
      ...environment
    }
  })
  const ended = once(child, "exit")
  for await (const chunk of child.stdout) if (String(chunk).includes("is ready")) break
  child.stdout.resume()
  return { pid: child.pid ?? 0, port, key: Redacted.value(key), child, ended }
}
