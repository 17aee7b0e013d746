/**
 * Feedback with a correction of 2 KiB (validated against the answer schema, redacted and committed) beside a bare Fastify and `pg` handler
 * that stores a body of the same size and does nothing else. Each runs in its own process on its own database of one PostgreSQL server;
 * rounds are interleaved. Three parts: throughput at peak; latency at half of the peak rate, open loop; processor time of redaction alone,
 * for an ordinary correction of 16 KiB and for hostile texts.
 */
import { PgConnection } from "@effect/sql-pg"
import { Effect, Redacted } from "effect"
import { type ChildProcess, spawn } from "node:child_process"
import { createHash } from "node:crypto"
import { Pool } from "undici"
import { Client } from "../../src/client/Client.ts"
import { hostileTexts } from "../../test/domain/redaction/Redaction/hostile.ts"
import { KnownValues, redact } from "../../src/domain/redaction/Redaction.ts"
import { answerSchema, correctionOf } from "./feedback/correction.ts"
import {
  alternate,
  atLeast,
  atMost,
  delayRounds,
  line,
  machine,
  median,
  percentOf,
  processorSeconds
} from "./measure.ts"
import { freePort, startService, startStore, stopAll } from "./service.ts"

const connections = 32
const roundMillis = 1_500
const rounds = 7
const warmUp = 2
const latencySeconds = 2.5
const latencyRounds = 9

const correction = correctionOf(2 * 1024)

/** Creates a task with one run and returns the run's trace id. */
const prepare = (url: string, key: string) =>
  Effect.gen(function* () {
    const client = yield* Client
    const task = yield* client.tasks.create({
      payload: {
        name: "bench",
        instructions: "Answer.",
        input_schema: { type: "object" },
        answer_schema: answerSchema
      }
    })
    const { trace_id } = yield* client.tasks.run({
      params: { id: task.id },
      payload: { input: { text: "hello" }, answer: correction }
    })
    return trace_id
  }).pipe(Effect.provide(Client.layer({ url, key: Redacted.make(key) })), Effect.runPromise)

const store = await startStore()
const children: Array<ChildProcess> = []

interface Side {
  readonly port: number
  readonly pid: number
  readonly path: string
  readonly body: () => string
}

try {
  const database = await store.database("bench_ours")
  const service = await startService(database)
  children.push(service.child)
  const trace_id = await prepare(`http://127.0.0.1:${service.port}`, service.key)
  const port = await freePort()
  const peer = spawn(process.execPath, ["scripts/bench/ground/fastify.ts"], {
    stdio: ["ignore", "ignore", "inherit"],
    env: {
      ...process.env,
      NODE_ENV: "production",
      PORT: String(port),
      DATABASE_URL: Redacted.value(await store.database("bench_fastify")),
      BENCH_DIGEST: createHash("sha256").update(service.key).digest("base64")
    }
  })
  children.push(peer)
  // Each person has their own opinion: a second one of the same person replaces the first.
  let users = 0
  const rest = JSON.stringify({ inference_log_id: trace_id, score: -1, correction }).slice(1)
  const inserted = JSON.stringify({ metadata: correction })
  const ours: Side = {
    port: service.port,
    pid: service.pid,
    path: "/v1/feedback",
    body: () => `{"end_user_id":"user ${++users}",${rest}`
  }
  const theirs: Side = {
    port,
    pid: peer.pid ?? 0,
    path: "/v1/agent-sessions",
    body: () => inserted
  }

  const headers = { authorization: `Bearer ${service.key}`, "content-type": "application/json" }
  const post = async (pool: Pool, { body, path }: Side) => {
    const answer = await pool.request({ path, method: "POST", headers, body: body() })
    const text = await answer.body.text()
    if (answer.statusCode !== 201) throw new Error(`answered ${answer.statusCode}: ${text}`)
  }
  const poolOf = (side: Side) => new Pool(`http://127.0.0.1:${side.port}`, { connections })
  const load = (side: Side) => {
    const pool = poolOf(side)
    const cpu: Array<number> = []
    const round = async () => {
      const before = processorSeconds(side.pid)
      const begin = performance.now()
      let count = 0
      await Promise.all(
        Array.from({ length: connections }, async () => {
          while (performance.now() - begin < roundMillis) {
            await post(pool, side)
            count++
          }
        })
      )
      cpu.push(((processorSeconds(side.pid) - before) * 1e6) / count)
      return (count * 1000) / (performance.now() - begin)
    }
    return { round, cpu: () => cpu.slice(warmUp) }
  }

  for (let tries = 0; ; tries++) {
    try {
      await post(poolOf(theirs), theirs)
      break
    } catch (cause) {
      if (tries === 300) throw cause
      await new Promise((resolve) => setTimeout(resolve, 100))
    }
  }
  // A table with rows and statistics, as it is a minute after the first ones: without them, any index is as good to the planner.
  for (let first = 0; first < 500; first++) await post(poolOf(ours), ours)
  await Effect.runPromise(
    Effect.scoped(
      Effect.flatMap(PgConnection.make({ url: database }), (connection) => connection.query("ANALYZE"))
    )
  )
  const us = load(ours)
  const them = load(theirs)
  const [rates = [], bare = []] = await alternate([us.round, them.round], { warmUp, rounds })

  console.log(
    `\nFeedback with a correction of 2 KiB, ${connections} connections, ${rounds} interleaved rounds of ${roundMillis / 1000} s`
  )
  console.log(`${machine()}, PostgreSQL 18 embedded, fsync on\n`)
  console.log(line("countersign", rates, "req/s"))
  console.log(line("fastify + pg, a bare insert of the same body", bare, "req/s"))
  console.log(line("processor time per request, countersign", us.cpu(), "µs"))
  console.log(line("processor time per request, fastify + pg", them.cpu(), "µs"))
  console.log(atLeast("rate by that of fastify + pg", percentOf(rates, bare), 50, "%"))

  const perSecond = median(rates) / 2
  const ourDelays = delayRounds(perSecond, latencySeconds, post.bind(undefined, poolOf(ours), ours))
  const theirDelays = delayRounds(perSecond, latencySeconds, post.bind(undefined, poolOf(theirs), theirs))
  const [ourTails = [], theirTails = []] = await alternate([ourDelays.round, theirDelays.round], {
    warmUp,
    rounds: latencyRounds
  })
  console.log(
    `\nAt half of that rate, open loop, ${latencyRounds} interleaved rounds of ${latencySeconds} s; calm: the half of the rounds with the least steal time\n`
  )
  for (const [name, delays] of [
    ["countersign", ourDelays],
    ["fastify + pg", theirDelays]
  ] as const) {
    const { calm, p50, p99, stolen } = delays.measured(warmUp)
    console.log(line(`${name}, p50`, p50, "ms"))
    console.log(line(`${name}, p99`, p99, "ms"))
    console.log(line("    steal time", stolen, "%"))
    console.log(line("    p99, calm", calm.p99, "ms"))
    console.log(line("    steal time, calm", calm.stolen, "%"))
  }
  console.log(atMost("p99 by that of fastify + pg", percentOf(ourTails, theirTails), 150, "%"))
} finally {
  await stopAll(children)
  await store.dispose()
}

/** Processor time of each of `times` calls, in milliseconds. */
const processorMillis = (times: number, call: () => unknown): ReadonlyArray<number> =>
  Array.from({ length: times }, () => {
    const before = process.cpuUsage()
    call()
    const { system, user } = process.cpuUsage(before)
    return (system + user) / 1_000
  })

const known = new KnownValues(
  Array.from(
    { length: 60 },
    (_, index) => `whsec_${createHash("sha256").update(`${index}`).digest("base64")}`
  )
)
const large = correctionOf(16 * 1024)
processorMillis(50, () => redact(large, known))
console.log(`\nRedaction, processor time, ${known.size} known secrets\n`)
const ordinary = processorMillis(50, () => redact(large, known))
console.log(line("an ordinary correction of 16 KiB", ordinary, "ms"))
const worst = Math.max(
  ...hostileTexts(64 * 1024).map(([, text]) => median(processorMillis(3, () => redact(text, known))))
)
console.log(line("hostile 64 KiB, the worst kind", [worst], "ms"))
console.log(atMost("  by an ordinary correction", [worst / median(ordinary)], 100, "times"))
process.exit()
