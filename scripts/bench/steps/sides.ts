/** The sides of the benchmark: this service, the bare handler, and, if `BENCH_BEFORE` names its entry point, an earlier build. */
import { Redacted } from "effect"
import { spawn } from "node:child_process"
import { createHash } from "node:crypto"
import { once } from "node:events"
import pg from "pg"
import { Pool } from "undici"
import { processorSeconds } from "../measure.ts"
import { freePort, startService, startStore, type Store } from "../service.ts"
import { seed, type Seed, type SeedEndpoints } from "./seed.ts"

/** Webhook endpoints of the organization. */
const ENDPOINTS = 3

/** Most concurrent callers of a case of its own. */
export const MANY = 16

/** The names of the other sides: an earlier build, and the bare handler. */
export const BEFORE = "before"
export const PEER = "fastify + pg"

/** A request of the load. */
export interface Request {
  readonly path: string
  readonly key: string
  readonly body: string
}

/** One side, in a process and a database of its own. */
export interface Side {
  readonly name: string
  readonly pid: number
  readonly seed: Seed
  /** Connections to its database, to prepare and to clean up. */
  readonly sql: pg.Pool
  /** Sends one request and returns the body of the response; fails if the status is no success. */
  readonly send: (request: Request) => Promise<string>
  /** Processor seconds so far: of its process, and of PostgreSQL without the connections of the other sides. */
  readonly usage: () => { readonly service: number; readonly postgres: number }
  readonly stop: () => Promise<void>
}

/** Sides on one PostgreSQL server. */
export interface Sides {
  readonly store: Store
  /** First this service, last the bare handler. */
  readonly all: ReadonlyArray<Side>
  readonly dispose: () => Promise<void>
}

/** The application name of the connections that prepare and clean up. */
const PREPARER = "bench"

/** Process ids of the benchmark's own connections to a side's database, which are excluded from the side's cost. */
export const preparerPids = async ({ sql }: Side): Promise<ReadonlyArray<number>> => {
  const { rows } = await sql.query<{ pid: number }>(
    "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name = $1",
    [PREPARER]
  )
  return rows.map(({ pid }) => pid)
}

/** The databases of the sides. */
const databases = { ours: "bench_ours", before: "bench_before", peer: "bench_peer" }

/** Starts PostgreSQL with this service, an earlier build if there is one, and the bare handler, with three endpoints in cooldown. */
export const startSides = (): Promise<Sides> => {
  const urls = Array.from({ length: ENDPOINTS }, (_, index) => `http://127.0.0.1:9/hook/${index}`)
  return startAll({ urls, inCooldown: true })
}

/** The same with one endpoint, at the receiver of this port. */
export const startDeliveringSides = (receiver: number): Promise<Sides> =>
  startAll(
    { urls: [`http://127.0.0.1:${receiver}/hook`], inCooldown: false },
    { BENCH_RECEIVER: String(receiver) }
  )

const startAll = (endpoints: SeedEndpoints, environment: Readonly<Record<string, string>> = {}) =>
  onOneStore(async (store) => {
    const { sides, template } = await startBuilds(store, endpoints)
    const [ours] = sides
    return ours === undefined ? sides : [...sides, await startPeer(store, ours.seed, template, environment)]
  })

const onOneStore = async (start: (store: Store) => Promise<ReadonlyArray<Side>>): Promise<Sides> => {
  const store = await startStore()
  try {
    const all = await start(store)
    return {
      store,
      all,
      dispose: async () => {
        for (const side of all) await side.stop()
        await store.dispose()
      }
    }
  } catch (cause) {
    await store.dispose()
    throw cause
  }
}

const startBuilds = async (store: Store, endpoints: SeedEndpoints) => {
  const start = async (side: "ours" | "before", name: string, main: string | undefined) => {
    const database = databases[side]
    const seeded = await seed(await store.create(templateOf(database)), main, endpoints)
    const url = await store.create(database, templateOf(database))
    const { child, ended, pid, port } = await startService(url, seeded.environment, main)
    return makeSide(store, { name, database, url, pid, port, seed: seeded }, () => {
      child.kill("SIGTERM")
      return ended
    })
  }
  const sides = [await start("ours", "countersign", undefined)]
  const before = process.env["BENCH_BEFORE"]
  if (before !== undefined) sides.push(await start("before", BEFORE, before))
  return { sides, template: templateOf(databases.ours) }
}

const templateOf = (database: string): string => `${database}_seed`

/** Starts the bare handler on a copy of the seeded database and waits until it listens. */
const startPeer = async (
  store: Store,
  seeded: Seed,
  template: string,
  environment: Readonly<Record<string, string>>
): Promise<Side> => {
  const url = await store.create(databases.peer, template)
  const port = await freePort()
  const keys = [seeded.agent, seeded.reviewer].map(({ id, name, secret }) => [
    createHash("sha256").update(secret).digest("base64"),
    { org_id: seeded.org_id, id, name }
  ])
  const child = spawn(process.execPath, ["scripts/bench/steps/peer.ts"], {
    stdio: ["ignore", "pipe", "inherit"],
    env: {
      ...process.env,
      NODE_ENV: "production",
      PORT: String(port),
      DATABASE_URL: Redacted.value(url),
      BENCH_KEYS: JSON.stringify(keys),
      ...environment
    }
  })
  const ended = once(child, "exit")
  for await (const chunk of child.stdout) if (String(chunk).includes("is ready")) break
  child.stdout.resume()
  const peer = {
    name: PEER,
    database: databases.peer,
    url,
    pid: child.pid ?? 0,
    port,
    seed: seeded
  }
  return makeSide(store, peer, () => {
    child.kill("SIGTERM")
    return ended
  })
}

const makeSide = (
  store: Store,
  side: Pick<Side, "name" | "pid" | "seed"> & {
    readonly port: number
    readonly database: string
    readonly url: Redacted.Redacted
  },
  stop: () => Promise<unknown>
): Side => {
  const pool = new Pool(`http://127.0.0.1:${side.port}`, { connections: MANY * 2 })
  const sql = new pg.Pool({
    connectionString: Redacted.value(side.url),
    max: 2,
    application_name: PREPARER
  })
  const others = Object.values(databases).filter((name) => name !== side.database)
  let stopped: Promise<void> | undefined
  const stopAll = async () => {
    await pool.close()
    await sql.end()
    await stop()
  }
  // The pool has ended before its connections are closed, and the stop of PostgreSQL can come first.
  sql.on("error", (cause) => {
    if (stopped === undefined) throw cause
  })
  return {
    name: side.name,
    pid: side.pid,
    seed: side.seed,
    sql,
    send: async ({ body, key, path }) => {
      const answer = await pool.request({
        path,
        method: "POST",
        headers: {
          authorization: `Bearer ${key}`,
          ...(body === "" ? {} : { "content-type": "application/json" })
        },
        body
      })
      const text = await answer.body.text()
      if (answer.statusCode >= 300) throw new Error(`${side.name} answered ${answer.statusCode}: ${text}`)
      return text
    },
    usage: () => ({ service: processorSeconds(side.pid), postgres: store.processorSeconds(others) }),
    stop: () => (stopped ??= stopAll())
  }
}
