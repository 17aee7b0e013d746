/**
 * Latency of a run, end to end over HTTP, for an organization whose collector never answers beside an organization without a telemetry
 * destination, both on one service, in interleaved rounds. A third organization, also without a destination, is a control: a difference
 * within the one between these two is noise. A round is longer than the flush interval of spans, and is followed by a pause in which its
 * spans are written, so that each round pays for its own spans. Measured in two states: while batches are made and sent in vain, and with
 * a full queue. Load is open loop at half of the peak rate, because above that the figure would be the wait for a processor. Runs log an
 * answer made elsewhere, so that no model call is in the figure.
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

/** After this, the spans of a round are in the database. */
const REST_MILLIS = 2_200

const out = (text: string): void => void process.stdout.write(`${text}\n`)

const decodeId = Schema.decodeUnknownSync(Schema.Struct({ id: Schema.String }))
const decodeDestinations = Schema.decodeUnknownSync(
  Schema.Struct({ destinations: Schema.Array(Schema.Struct({ pending_spans: Schema.Int })) })
)

/** An HTTP client of one organization. */
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
  const schema = { type: "object", properties: { text: { type: "string" } } }
  const task = decodeId(
    await call("POST", "/v1/tasks", {
      name: "bench",
      instructions: "",
      input_schema: schema,
      answer_schema: schema
    })
  )
  const run = () => call("POST", `/v1/tasks/${task.id}/run`, { input: { text: "a" }, answer: { text: "b" } })
  return {
    call,
    close: () => pool.close(),
    /** Closed-loop rate: runs per second when each client sends the next request as soon as it has its answer. */
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
    /** Open-loop rounds at this rate, each followed by a pause in which its spans are written. */
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

/** A service with three organizations; the last one exports to a collector that hangs. */
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
  const control = await organization("control")
  const hanging = await organization("hanging")
  await hanging.call("POST", "/v1/telemetry-destinations", { url: `${url}/hang` })
  return {
    without,
    control,
    hanging,
    pending: async () => {
      const [found] = decodeDestinations(await hanging.call("GET", "/v1/telemetry-destinations")).destinations
      return found?.pending_spans ?? 0
    },
    stop: async () => {
      await Promise.all([without, control, hanging].map((client) => client.close()))
      service.child.kill("SIGTERM")
      await service.ended
    }
  }
}

const states = [
  { name: "bench_latency_sending", says: "while batches are sent in vain", queueLimit: 1_000_000, full: 0 },
  { name: "bench_latency_full", says: "with a full queue of 10,000 spans", queueLimit: 10_000, full: 10_000 }
]

/** Measures both states one after another. */
export const latency = async (): Promise<void> => {
  const store = await startStore()
  const collector = await startCollector()
  out(machine())
  for (const { full, name, queueLimit, says } of states) {
    const { control, hanging, pending, stop, without } = await threeOrganizations(
      store,
      name,
      collector.url,
      queueLimit
    )
    await without.peak()
    const rate = (await without.peak()) / 2
    while ((await pending()) < full) await hanging.peak()
    const [plain, same, slow] = [without.delays(rate), control.delays(rate), hanging.delays(rate)]
    await alternate([plain.round, same.round, slow.round], { warmUp: WARM_UP, rounds: ROUNDS })
    const [one, twin, other] = [plain.measured(WARM_UP), same.measured(WARM_UP), slow.measured(WARM_UP)]
    out(`${says} (${await pending()} queued at the end), ${rate.toFixed(0)} runs per second`)
    for (const [name, left, middle, right] of [
      ["p50", one.p50, twin.p50, other.p50],
      ["p99", one.p99, twin.p99, other.p99],
      ["p99, calm", one.calm.p99, twin.calm.p99, other.calm.p99]
    ] as const) {
      const ratio = (values: ReadonlyArray<number>) => (median(values) / median(left)).toFixed(3)
      out(`  ${name}, ratio ${ratio(right)}; of the control, ${ratio(middle)}`)
      out(line("    without a destination", left, "ms"))
      out(line("    without a destination (control)", middle, "ms"))
      out(line("    with a hanging collector", right, "ms"))
    }
    const stolen = [one, twin, other]
    out(
      line(
        "  steal time",
        stolen.flatMap((side) => side.stolen),
        "%"
      )
    )
    out(
      line(
        "  steal time, calm",
        stolen.flatMap((side) => side.calm.stolen),
        "%"
      )
    )
    await stop()
  }
  collector.stop()
  await store.dispose()
}
