/**
 * An authenticated POST with one insert: this service (`POST /v1/agent-sessions`) beside a bare Fastify and `pg` handler that inserts the
 * same row. Each runs in its own process on its own database of one PostgreSQL server; rounds are interleaved, warm-up is left out. The
 * service coalesces concurrent inserts into one statement, so a single caller, whose inserts cannot be coalesced, is measured too.
 */
import { Redacted } from "effect"
import { type ChildProcess, spawn } from "node:child_process"
import { createHash } from "node:crypto"
import { Pool } from "undici"
import {
  alternate,
  atLeast,
  atMost,
  line,
  machine,
  percentOf,
  processorSeconds,
  residentMegabytes
} from "./measure.ts"
import { freePort, startService, startStore, stopAll } from "./service.ts"

const MANY = 32
const MANY_MILLIS = 4_000
const ALONE_MILLIS = 1_000
const rounds = 9
const warmUp = 2

const store = await startStore()
const children: Array<ChildProcess> = []

try {
  const ours = await startService(await store.database("bench_ours"))
  const secret = ours.key
  children.push(ours.child)
  const start = async (script: ReadonlyArray<string>, environment: Record<string, string>) => {
    const port = await freePort()
    const child = spawn(process.execPath, [...script], {
      stdio: ["ignore", "ignore", "inherit"],
      env: { ...process.env, NODE_ENV: "production", PORT: String(port), ...environment }
    })
    children.push(child)
    return { port, pid: child.pid ?? 0 }
  }
  const fastify = await start(["scripts/bench/ground/fastify.ts"], {
    DATABASE_URL: Redacted.value(await store.database("bench_fastify")),
    BENCH_DIGEST: createHash("sha256").update(secret).digest("base64")
  })

  const body = JSON.stringify({ metadata: { agent: "bench", run: 1, tags: ["a", "b"] } })
  const headers = { authorization: `Bearer ${secret}`, "content-type": "application/json" }
  const post = async (pool: Pool) => {
    const answer = await pool.request({ path: "/v1/agent-sessions", method: "POST", headers, body })
    const text = await answer.body.text()
    if (answer.statusCode !== 201) throw new Error(`answered ${answer.statusCode}: ${text}`)
  }
  const side = async ({ pid, port }: { readonly port: number; readonly pid: number }) => {
    const pool = new Pool(`http://127.0.0.1:${port}`, { connections: MANY })
    for (let tries = 0; ; tries++) {
      try {
        await post(pool)
        break
      } catch (cause) {
        if (tries === 300) throw cause
        await new Promise((resolve) => setTimeout(resolve, 100))
      }
    }
    let memory = 0
    const cpu: Array<number> = []
    const round = (connections: number, roundMillis: number) => async () => {
      const before = processorSeconds(pid)
      const begin = performance.now()
      let count = 0
      await Promise.all(
        Array.from({ length: connections }, async () => {
          while (performance.now() - begin < roundMillis) {
            await post(pool)
            count++
          }
        })
      )
      memory = Math.max(memory, residentMegabytes(pid))
      cpu.push(((processorSeconds(pid) - before) * 1e6) / count)
      return (count * 1000) / (performance.now() - begin)
    }
    return {
      alone: round(1, ALONE_MILLIS),
      many: round(MANY, MANY_MILLIS),
      memory: () => memory,
      cpu: () => cpu.slice(warmUp, warmUp + rounds)
    }
  }

  const us = await side(ours)
  const them = await side(fastify)
  const [rates = [], theirs = []] = await alternate([us.many, them.many], { warmUp, rounds })
  const [alone = [], theirsAlone = []] = await alternate([us.alone, them.alone], { warmUp, rounds })
  console.log(
    `\nAn authenticated POST with one insert, ${MANY} connections, ${rounds} interleaved rounds of ${MANY_MILLIS / 1000} s`
  )
  console.log(`${machine()}, PostgreSQL 18 embedded, fsync on\n`)
  console.log(line("countersign", rates, "req/s"))
  console.log(line("fastify + pg", theirs, "req/s"))
  console.log(line("processor time per request, countersign", us.cpu(), "µs"))
  console.log(line("processor time per request, fastify + pg", them.cpu(), "µs"))
  console.log(atLeast("ratio", percentOf(rates, theirs), 75, "%"))
  console.log(line("single caller, countersign", alone, "req/s"))
  console.log(line("single caller, fastify + pg", theirsAlone, "req/s"))
  console.log(line("ratio, single caller", percentOf(alone, theirsAlone), "%"))
  console.log(atMost("resident memory under load, countersign", [us.memory()], 250, "MB"))
  console.log(line("resident memory under load, fastify + pg", [them.memory()], "MB"))
} finally {
  await stopAll(children)
  await store.dispose()
}
