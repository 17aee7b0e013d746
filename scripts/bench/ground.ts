/**
 * An authenticated POST with one insert: ours (`POST /v1/agent-sessions`) against a bare Fastify and `pg` handler that runs the same
 * statement, each a process of its own over its own database of one PostgreSQL, in turn, under the same load. Warm-up left out.
 */
import { Effect, Layer, ManagedRuntime, Redacted } from "effect"
import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"
import { mkdtempSync, rmSync } from "node:fs"
import { createHash, randomBytes } from "node:crypto"
import { createServer } from "node:net"
import { tmpdir } from "node:os"
import path from "node:path"
import { Pool } from "undici"
import { PgConnection } from "@effect/sql-pg"
import * as ApiKeyFormat from "../../src/domain/ApiKeyFormat.ts"
import * as Database from "../../src/server/Database.ts"
import { EmbeddedPostgres } from "../../src/server/EmbeddedPostgres.ts"
import { alternate, line, machine, median, processorSeconds, residentMegabytes } from "./measure.ts"

const connections = 32
const roundMillis = 4_000
const rounds = 9
const warmUp = 2

const freePort = async (): Promise<number> => {
  const server = createServer().listen(0, "127.0.0.1")
  await once(server, "listening")
  const address = server.address()
  server.close()
  return typeof address === "object" && address !== null ? address.port : 0
}

const dataDir = mkdtempSync(path.join(tmpdir(), "countersign-bench-"))
const runtime = ManagedRuntime.make(EmbeddedPostgres.layer({ dataDir }))
const children: Array<ChildProcess> = []

try {
  const { url } = await runtime.runPromise(EmbeddedPostgres)
  const databaseUrl = (name: string) => {
    const other = new URL(Redacted.value(url))
    other.pathname = `/${name}`
    return other.href
  }
  for (const name of ["bench_ours", "bench_fastify"]) {
    await runtime.runPromise(
      Effect.scoped(
        Effect.flatMap(PgConnection.make({ url }), (connection) =>
          connection.query(`CREATE DATABASE ${name}`)
        )
      )
    )
    await Effect.runPromise(
      Database.migrate.pipe(
        Effect.provide(Layer.fresh(Database.layer({ url: Redacted.make(databaseUrl(name)) })))
      )
    )
  }

  const { key } = await Effect.runPromise(ApiKeyFormat.generate)
  const secret = Redacted.value(key)
  const start = async (script: ReadonlyArray<string>, environment: Record<string, string>) => {
    const port = await freePort()
    const child = spawn(process.execPath, [...script], {
      stdio: ["ignore", "ignore", "inherit"],
      env: { ...process.env, NODE_ENV: "production", PORT: String(port), ...environment }
    })
    children.push(child)
    return { port, pid: child.pid ?? 0 }
  }
  const ours = await start(["--max-semi-space-size=8", process.env["BENCH_MAIN"] ?? "src/main.ts", "serve"], {
    DATABASE_URL: databaseUrl("bench_ours"),
    COUNTERSIGN_MASTER_KEY: randomBytes(32).toString("base64"),
    COUNTERSIGN_ADMIN_KEY: secret,
    COUNTERSIGN_RATE_LIMIT_PER_SECOND: "0"
  })
  const fastify = await start(["scripts/bench/ground/fastify.ts"], {
    DATABASE_URL: databaseUrl("bench_fastify"),
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
    const pool = new Pool(`http://127.0.0.1:${port}`, { connections })
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
    const round = async () => {
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
    return { round, memory: () => memory, cpu: () => cpu.slice(warmUp) }
  }

  const us = await side(ours)
  const them = await side(fastify)
  const [rates = [], theirs = []] = await alternate([us.round, them.round], { warmUp, rounds })
  const ratios = rates.map((value, index) => value / (theirs[index] ?? Number.NaN))

  console.log(
    `\nAn authenticated POST with one insert, ${connections} connections, ${rounds} rounds of ${roundMillis / 1000} s each in turn`
  )
  console.log(`${machine()}, PostgreSQL 18 embedded, fsync on\n`)
  console.log(line("countersign", rates, "req/s"))
  console.log(line("fastify + pg", theirs, "req/s"))
  console.log(line("processor time a request, countersign", us.cpu(), "µs   "))
  console.log(line("processor time a request, fastify + pg", them.cpu(), "µs   "))
  console.log(
    line(
      "ratio (goal: at least 0.75)",
      ratios.map((ratio) => ratio * 100),
      "%    "
    )
  )
  console.log(
    `\nresident memory under load: countersign ${us.memory().toFixed(0)} MB (goal: at most 250), fastify ${them.memory().toFixed(0)} MB`
  )
  console.log(`median ratio ${median(ratios).toFixed(2)}`)
} finally {
  for (const child of children) child.kill("SIGTERM")
  await runtime.dispose()
  rmSync(dataDir, { recursive: true, force: true })
}
