/** The sides of the `steps` benchmark: this service, the bare handler, and, if `BENCH_BEFORE` names its entry point, an earlier build. */
import { Redacted } from "effect"
import { spawn } from "node:child_process"
import { createHash } from "node:crypto"
import { once } from "node:events"
import pg from "pg"
import { Pool } from "undici"
import { processorSeconds } from "../measure.ts"
import { freePort, startService, startStore, type Store } from "../service.ts"
import { seed, type Seed } from "./seed.ts"

/** Webhook endpoints of the organization. */
const ENDPOINTS = 3

/** Most concurrent callers. */
export const MANY = 16

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
  /** Sends one request and fails unless it is answered by 200. */
  readonly send: (request: Request) => Promise<void>
  /** Processor seconds so far: of its process, and of PostgreSQL without the connections of the other sides. */
  readonly usage: () => { readonly service: number; readonly postgres: number }
  readonly stop: () => Promise<void>
}

export interface Sides {
  readonly store: Store
  /** First this service, last the bare handler. */
  readonly all: ReadonlyArray<Side>
  readonly dispose: () => Promise<void>
}

/** Starts PostgreSQL and all sides. */
export const startSides = async (): Promise<Sides> => {
  const store = await startStore()
  const sides: Array<Side> = []
  const dispose = async () => {
    for (const side of sides) await side.stop()
    await store.dispose()
  }
  try {
    const before = process.env["BENCH_BEFORE"]
    const names = ["bench_ours", ...(before === undefined ? [] : ["bench_before"]), "bench_peer"]
    const makeSide = async (
      side: Pick<Side, "name" | "pid" | "seed"> & { readonly port: number; readonly database: string },
      url: Redacted.Redacted,
      stop: () => Promise<unknown>
    ): Promise<void> => {
      const pool = new Pool(`http://127.0.0.1:${side.port}`, { connections: MANY * 2 })
      const sql = new pg.Pool({ connectionString: Redacted.value(url), max: 2 })
      const others = names.filter((name) => name !== side.database)
      sides.push({
        ...side,
        sql,
        send: async ({ body, key, path }) => {
          const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" }
          const answer = await pool.request({ path, method: "POST", headers, body })
          const text = await answer.body.text()
          if (answer.statusCode !== 200)
            throw new Error(`${side.name} answered ${answer.statusCode}: ${text}`)
        },
        usage: () => ({ service: processorSeconds(side.pid), postgres: store.processorSeconds(others) }),
        stop: async () => {
          await pool.close()
          await sql.end()
          await stop()
        }
      })
    }
    const startBuild = async (name: string, database: string, main: string | undefined) => {
      const template = `${database}_seed`
      const urls = Array.from({ length: ENDPOINTS }, (_, index) => `http://127.0.0.1:9/hook/${index}`)
      const seeded = await seed(await store.create(template), main, urls)
      const url = await store.create(database, template)
      const service = await startService(url, seeded.environment, main)
      await makeSide({ name, database, pid: service.pid, port: service.port, seed: seeded }, url, () => {
        service.child.kill("SIGTERM")
        return service.ended
      })
      return { seeded, template }
    }
    const { seeded, template } = await startBuild("countersign", "bench_ours", undefined)
    if (before !== undefined) await startBuild("before", "bench_before", before)
    const url = await store.create("bench_peer", template)
    const peer = await startPeer(url, seeded)
    await makeSide({ ...peer, name: "fastify + pg", database: "bench_peer", seed: seeded }, url, peer.stop)
    return { store, all: sides, dispose }
  } catch (cause) {
    await dispose()
    throw cause
  }
}

/** Starts the bare handler and waits until it listens. */
const startPeer = async (url: Redacted.Redacted, { agent, org_id, reviewer }: Seed) => {
  const port = await freePort()
  const keys = [agent, reviewer].map(({ id, name, secret }) => [
    createHash("sha256").update(secret).digest("base64"),
    { org_id, id, name }
  ])
  const child = spawn(process.execPath, ["scripts/bench/steps/peer.ts"], {
    stdio: ["ignore", "pipe", "inherit"],
    env: {
      ...process.env,
      NODE_ENV: "production",
      PORT: String(port),
      DATABASE_URL: Redacted.value(url),
      BENCH_KEYS: JSON.stringify(keys)
    }
  })
  const ended = once(child, "exit")
  for await (const chunk of child.stdout) if (String(chunk).includes("is ready")) break
  child.stdout.resume()
  return {
    port,
    pid: child.pid ?? 0,
    stop: () => {
      child.kill("SIGTERM")
      return ended
    }
  }
}
