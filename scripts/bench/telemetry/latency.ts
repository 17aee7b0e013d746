/**
 * What a run takes, end to end over HTTP, for an organization whose collector never answers and for one without a destination: organizations
 * of one service, in rounds that alternate, so that whatever disturbs the machine disturbs all. A third one, without a destination either,
 * says how far two figures of the very same are apart on this machine: what is within that is no difference. A round is longer than the
 * time that spans wait for others, and what one has left behind is written before the next begins: each pays for its own. Measured
 * twice: while batches are made and sent in vain, and when the queue is full, as it is after some seconds. Runs come evenly, at half of
 * the rate that clients without a destination reach: beyond it the time would be that of waiting for a processor. They log an answer
 * made elsewhere, so that no model is in the figure.
 */
import { Redacted, Schema } from "effect"
import { execFile } from "node:child_process"
import { randomBytes } from "node:crypto"
import { setTimeout as pause } from "node:timers/promises"
import { promisify } from "node:util"
import { Pool } from "undici"
import { alternate, delayRounds, line, machine, median } from "../measure.ts"
import { startService, startStore, type Store } from "../service.ts"
import { startCollector } from "./stub.ts"

const ROUNDS = 24
const WARM_UP = 2
const ROUND_SECONDS = 2.5
const CLIENTS = 8
const PEAK_SECONDS = 3

/** The spans of a round are in the store after this. */
const REST_MILLIS = 2_200

const out = (text: string): void => void process.stdout.write(`${text}\n`)

const decodeId = Schema.decodeUnknownSync(Schema.Struct({ id: Schema.String }))
const decodeDestinations = Schema.decodeUnknownSync(
  Schema.Struct({ destinations: Schema.Array(Schema.Struct({ pending_spans: Schema.Int })) })
)

/** What an organization does over HTTP. */
const clientOf = async (port: number, key: string) => {
  const pool = new Pool(`http://127.0.0.1:${port}`, { connections: CLIENTS })
  const call = async (method: "GET" | "POST", path: string, body?: object): Promise<unknown> => {
    const answer = await pool.request({
      method,
      path,
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      ...(body === undefined ? {} : { body: JSON.stringify(body) })
    })
    const text = await answer.body.text()
    if (answer.statusCode >= 300) throw new Error(`${method} ${path}: ${answer.statusCode} ${text}`)
    return JSON.parse(text)
  }
  const shape = { type: "object", properties: { text: { type: "string" } } }
  const task = decodeId(
    await call("POST", "/v1/tasks", {
      name: "bench",
      instructions: "",
      input_schema: shape,
      answer_schema: shape
    })
  )
  const run = () => call("POST", `/v1/tasks/${task.id}/run`, { input: { text: "a" }, answer: { text: "b" } })
  return {
    call,
    close: () => pool.close(),
    /** Runs a second, when each client sends the next as soon as it has its answer. */
    peak: async (): Promise<number> => {
      let count = 0
      const until = performance.now() + PEAK_SECONDS * 1_000
      await Promise.all(
        Array.from({ length: CLIENTS }, async () => {
          for (; performance.now() < until; count++) await run()
        })
      )
      return count / PEAK_SECONDS
    },
    /** Rounds at this rate, each with a rest in which its spans are stored. */
    delays: (perSecond: number) => {
      const { measured, round } = delayRounds(perSecond, ROUND_SECONDS, run)
      return {
        measured,
        round: async (): Promise<number> => {
          const p99 = await round()
          await pause(REST_MILLIS)
          return p99
        }
      }
    }
  }
}

/** A service with three organizations, of which the last has a destination that hangs. */
const threeOrganizations = async (store: Store, name: string, url: string, queueLimit: number) => {
  const database = await store.database(name)
  const masterKey = randomBytes(32).toString("base64")
  const service = await startService(database, {
    NODE_ENV: "test",
    COUNTERSIGN_EGRESS_ALLOW: "127.0.0.0/8",
    COUNTERSIGN_EGRESS_HTTP: "true",
    COUNTERSIGN_MASTER_KEY: masterKey,
    COUNTERSIGN_TELEMETRY_QUEUE_LIMIT: String(queueLimit)
  })
  const organization = async (org: string) => {
    const { stdout } = await promisify(execFile)(
      process.execPath,
      ["src/main.ts", "keys", "create", "--org", org, "--preset", "admin"],
      {
        env: {
          PATH: process.env["PATH"],
          DATABASE_URL: Redacted.value(database),
          COUNTERSIGN_MASTER_KEY: masterKey
        }
      }
    )
    return clientOf(service.port, stdout.trim())
  }
  const without = await clientOf(service.port, service.key)
  const again = await organization("again")
  const hanging = await organization("hanging")
  await hanging.call("POST", "/v1/telemetry-destinations", { url: `${url}/hang` })
  return {
    without,
    again,
    hanging,
    pending: async () => {
      const [found] = decodeDestinations(await hanging.call("GET", "/v1/telemetry-destinations")).destinations
      return found?.pending_spans ?? 0
    },
    stop: async () => {
      await Promise.all([without, again, hanging].map((client) => client.close()))
      service.child.kill("SIGTERM")
      await service.ended
    }
  }
}

const states = [
  { name: "bench_latency_sending", says: "while it is sent batches", queueLimit: 1_000_000, full: 0 },
  { name: "bench_latency_full", says: "once 10,000 spans wait", queueLimit: 10_000, full: 10_000 }
]

/** Measures both states, one after the other. */
export const latency = async (): Promise<void> => {
  const store = await startStore()
  const collector = await startCollector()
  out(machine())
  for (const { full, name, queueLimit, says } of states) {
    const { again, hanging, pending, stop, without } = await threeOrganizations(
      store,
      name,
      collector.url,
      queueLimit
    )
    await without.peak()
    const rate = (await without.peak()) / 2
    while ((await pending()) < full) await hanging.peak()
    const [plain, same, slow] = [without.delays(rate), again.delays(rate), hanging.delays(rate)]
    await alternate([plain.round, same.round, slow.round], { warmUp: WARM_UP, rounds: ROUNDS })
    const [one, twin, other] = [plain.measured(WARM_UP), same.measured(WARM_UP), slow.measured(WARM_UP)]
    out(`${says} (${await pending()} wait at the end), ${rate.toFixed(0)} runs a second`)
    for (const [name, left, middle, right] of [
      ["p50", one.p50, twin.p50, other.p50],
      ["p99", one.p99, twin.p99, other.p99],
      ["p99 in the calm half of the rounds", one.calm.p99, twin.calm.p99, other.calm.p99]
    ] as const) {
      const ratio = (values: ReadonlyArray<number>) => (median(values) / median(left)).toFixed(3)
      out(`  ${name}, ratio ${ratio(right)}; of the very same, ${ratio(middle)}`)
      out(line("    without a destination", left, "ms"))
      out(line("    without one, again", middle, "ms"))
      out(line("    with one that hangs", right, "ms"))
    }
    const stolen = [one, twin, other]
    out(
      line(
        "  of the processors stolen by the host",
        stolen.flatMap((side) => side.stolen),
        "%"
      )
    )
    out(
      line(
        "  in the calm half of the rounds",
        stolen.flatMap((side) => side.calm.stolen),
        "%"
      )
    )
    await stop()
  }
  collector.stop()
  await store.dispose()
}
