/**
 * One endpoint of fifty that hangs, through the service: every approval that is asked for goes to all endpoints of its
 * organization, of which one accepts requests and never answers, and has the most deliveries queued that it may have.
 * Measured is the time from the request to each receipt of the other endpoints, beside a second service whose endpoints
 * all answer, in interleaved rounds; and the processor time of an approval with all its deliveries. A round is noisy if
 * other programs used much processor time. The goal is judged by the pairs of rounds without a noisy one. It ends
 * within 90 seconds. `BENCH_MAIN` names the entry point of another build, and `BENCH_PROFILE` the directory for a
 * processor profile of each service.
 */
import { Effect, ManagedRuntime, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { setTimeout as pause } from "node:timers/promises"
import { Pool } from "undici"
import * as Database from "../../../src/server/store/Database.ts"
import { shardOf } from "../../../src/server/delivery/Delivery/shardOf.ts"
import { cpus } from "node:os"
import { atMost, line, machine, machineSeconds, median, processorSeconds, quantile } from "../measure.ts"
import { startService, startStore } from "../service.ts"
import { latencyLine, startReceiver } from "./harness.ts"
import { HANGING_PATH } from "./message.ts"
import { nowMicros } from "./protocol.ts"

const ENDPOINTS = 50
const QUEUED = 10_000
const EVENTS_PER_SECOND = 8
const ROUND_MILLIS = 1_500
const ROUNDS = 12

/** The share of the processors that other programs, or other virtual machines, used during a noisy round. */
const NOISY_SHARE = 0.25

/** Pairs of rounds without noise that settle the result. */
const ENOUGH_PAIRS = 5

const decodeEndpoint = Schema.decodeUnknownSync(
  Schema.fromJsonString(Schema.Struct({ endpoint: Schema.Struct({ id: Schema.String }) }))
)
const decodeSession = Schema.decodeUnknownSync(
  Schema.fromJsonString(Schema.Struct({ session_id: Schema.String }))
)
const decodeStep = Schema.decodeUnknownSync(
  Schema.fromJsonString(Schema.Struct({ approval_id: Schema.String }))
)

/** One round of a side. Processor times are of an approval, in milliseconds. */
interface Round {
  readonly millis: ReadonlyArray<number>
  readonly p50: number
  readonly p99: number
  readonly service: number
  readonly store: number
  /** The share of the processors that other programs used, or other virtual machines. */
  readonly others: number
}

/** A round of each side. */
interface Pair {
  readonly free: Round
  readonly held: Round
  readonly noisy: boolean
}

/** Prints every pair of rounds, then medians and spread. */
const report = (pairs: ReadonlyArray<Pair>): void => {
  console.log(`\n${machine()}, PostgreSQL 18 embedded, fsync on`)
  console.log(
    `${EVENTS_PER_SECOND} approvals a second to ${ENDPOINTS} endpoints, ${pairs.length} pairs of rounds: request to receipt\n`
  )
  console.log("round   all answer: p50, p99      one hangs: p50, p99    other programs")
  for (const [index, { free, held, noisy }] of pairs.entries()) {
    const times = ({ p50, p99 }: Round) => `${p50.toFixed(1).padStart(8)} ${p99.toFixed(1).padStart(8)} ms`
    const others = [free, held].map((one) => `${Math.round(one.others * 100)} %`).join(", ")
    console.log(
      `${String(index + 1).padStart(5)}   ${times(free)}      ${times(held)}    ${others}${noisy ? "   noisy" : ""}`
    )
  }
  console.log("")
  const quiet = pairs.filter(({ noisy }) => !noisy)
  const isSettled = quiet.length >= ENOUGH_PAIRS
  const judged = isSettled ? quiet : pairs
  console.log(
    latencyLine(
      "every endpoint answers",
      judged.flatMap(({ free }) => free.millis)
    )
  )
  console.log(
    latencyLine(
      `one hangs, ${QUEUED} queued for it`,
      judged.flatMap(({ held }) => held.millis)
    )
  )
  for (const [name, of] of [
    ["service", (one: Round) => one.service],
    ["PostgreSQL", (one: Round) => one.store]
  ] as const) {
    console.log(
      line(
        `processor time of an approval, ${name}`,
        judged.map(({ free }) => of(free)),
        "ms"
      )
    )
    console.log(
      line(
        "  and beside the hanging endpoint",
        judged.map(({ held }) => of(held)),
        "ms"
      )
    )
  }
  console.log(
    line(
      "p50 beside the hanging endpoint, ratio",
      judged.map(({ free, held }) => held.p50 / free.p50),
      "times"
    )
  )
  const ratios = judged.map(({ free, held }) => held.p99 / free.p99)
  const what = "p99 beside the hanging endpoint, ratio"
  if (isSettled) console.log(atMost(what, ratios, 1.25, "times"))
  else
    console.log(
      `${line(what, ratios, "times")}   not settled: ${quiet.length} of ${pairs.length} pairs were quiet, ${ENOUGH_PAIRS} are needed`
    )
}

/** Queues as many deliveries for an endpoint as it may have, as the service would have written them. */
const fillQueue = (endpoint: string) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const id = (prefix: string) => sql.literal(`'${prefix}_' || lpad(to_hex(n), 32, '0')`)
    yield* sql`
      INSERT INTO approval_events (org_id, event_id, type, body, occurred_at)
      SELECT org_id, ${id("evt")}, 'test', '{}', now()
      FROM organizations, generate_series(1, ${QUEUED}::int) AS n
    `
    yield* sql`
      INSERT INTO deliveries (org_id, destination_id, delivery_id, channel, event_id, label, status, created_at)
      SELECT org_id, ${endpoint}, ${id("ndl")}, 'webhook', ${id("evt")}, 'test', 'pending', now()
      FROM organizations, generate_series(1, ${QUEUED}::int) AS n
    `
    yield* sql`
      INSERT INTO delivery_queue (shard, org_id, destination_id, delivery_id, channel, event_id, due_at, attempt, first_attempt)
      SELECT ${shardOf(endpoint)}::smallint, org_id, ${endpoint}, ${id("ndl")}, 'webhook', ${id("evt")}, now(), 0, 0
      FROM organizations, generate_series(1, ${QUEUED}::int) AS n
    `
    // As autovacuum does while a queue grows to this length.
    yield* sql`VACUUM ANALYZE delivery_queue`
  })

/** Runs the benchmark. */
export const hanging = async (): Promise<void> => {
  const store = await startStore()
  const receiver = await startReceiver()
  const services: Array<Awaited<ReturnType<typeof startSide>>> = []

  const startSide = async (name: string, lastPath: string) => {
    const url = await store.database(`bench_${name}`)
    const service = await startService(url, {
      // Deliveries to this machine are refused in production.
      NODE_ENV: "development",
      COUNTERSIGN_EGRESS_ALLOW: "127.0.0.1/32",
      COUNTERSIGN_EGRESS_HTTP: "true"
    })
    const pool = new Pool(`http://127.0.0.1:${service.port}`, { connections: 16 })
    const database = ManagedRuntime.make(Database.layer({ url, maxConnections: 1 }))
    const call = async (method: "POST" | "PUT", path: string, body: unknown): Promise<string> => {
      const answer = await pool.request({
        method,
        path,
        headers: { authorization: `Bearer ${service.key}`, "content-type": "application/json" },
        body: JSON.stringify(body)
      })
      const text = await answer.body.text()
      if (answer.statusCode >= 300) throw new Error(`${path} got status ${answer.statusCode}: ${text}`)
      return text
    }
    await call("PUT", "/v1/approval-rules", {
      rules: [{ tool: "pay", effect: "require_approval", self_approval: true }]
    })
    let last = ""
    for (let count = 1; count <= ENDPOINTS; count++) {
      const path = count === ENDPOINTS ? lastPath : `/${count}`
      const created = await call("POST", "/v1/notification-endpoints", {
        url: `http://127.0.0.1:${receiver.port}${path}`
      })
      last = decodeEndpoint(created).endpoint.id
    }
    const { session_id } = decodeSession(await call("POST", "/v1/agent-sessions", { metadata: {} }))
    let steps = 0
    const ask = async () => {
      const due = nowMicros()
      const { approval_id } = decodeStep(
        await call("POST", `/v1/agent-sessions/${session_id}/steps`, {
          step_id: `step ${++steps}`,
          tool: "pay",
          action_class: "write",
          arguments: { amount: 12 }
        })
      )
      return [approval_id, due] as const
    }
    /** The approval of each event. */
    const eventApprovals = () =>
      database.runPromise(
        Effect.gen(function* () {
          const sql = yield* SqlClient.SqlClient
          const rows = yield* sql<{ readonly event_id: string; readonly approval_id: string }>`
            SELECT event_id, approval_id
            FROM approval_events
            WHERE approval_id IS NOT NULL
          `
          return new Map(rows.map((row) => [row.event_id, row.approval_id]))
        })
      )
    const round = async (): Promise<Round> => {
      await receiver.take()
      const before = receiver.count()
      const usage = () => ({
        service: processorSeconds(service.pid),
        store: store.processorSeconds(),
        others:
          machineSeconds() -
          store.processorSeconds() -
          [process.pid, receiver.pid, ...services.map((one) => one.service.pid)]
            .map(processorSeconds)
            .reduce((a, b) => a + b)
      })
      const begin = [performance.now(), usage()] as const
      const under: Array<ReturnType<typeof ask>> = []
      for (let at = 0; at < ROUND_MILLIS; at += 1_000 / EVENTS_PER_SECOND) {
        await pause(Math.max(0, begin[0] + at - performance.now()))
        under.push(ask())
      }
      const asked = new Map(await Promise.all(under))
      await receiver.until(before + asked.size * (ENDPOINTS - 1))
      await pause(200)
      const end = [performance.now(), usage()] as const
      const approvals = await eventApprovals()
      const millis = (await receiver.take()).flatMap(([key, at]) => {
        const [path = "", event = ""] = key.split(" ")
        const due = asked.get(approvals.get(event) ?? "")
        return due === undefined || path === lastPath ? [] : [(at - due) / 1_000]
      })
      return {
        millis,
        p50: median(millis),
        p99: quantile(millis, 0.99),
        service: ((end[1].service - begin[1].service) * 1e3) / asked.size,
        store: ((end[1].store - begin[1].store) * 1e3) / asked.size,
        others: ((end[1].others - begin[1].others) * 1e3) / (end[0] - begin[0]) / cpus().length
      }
    }
    return {
      service,
      last,
      round,
      run: database.runPromise.bind(database),
      close: () => Promise.all([pool.destroy(), database.dispose()])
    }
  }

  try {
    const calm = await startSide("calm", `/${ENDPOINTS}`)
    services.push(calm)
    const beside = await startSide("hanging", HANGING_PATH)
    services.push(beside)
    await beside.run(fillQueue(beside.last))
    const pairs: Array<Pair> = []
    for (let round = -2; round < ROUNDS; round++) {
      // Every second round runs in reverse order, so that neither side always follows the other.
      const first = round % 2 === 0 ? await calm.round() : await beside.round()
      const second = round % 2 === 0 ? await beside.round() : await calm.round()
      if (round < 0) continue
      const [free, held] = round % 2 === 0 ? [first, second] : [second, first]
      pairs.push({ free, held, noisy: Math.max(free.others, held.others) > NOISY_SHARE })
    }
    report(pairs)
  } finally {
    for (const { close, service } of services) {
      // A profile is written by an orderly end.
      service.child.kill(process.env["BENCH_PROFILE"] === undefined ? "SIGKILL" : "SIGTERM")
      await service.ended
      await close()
    }
    receiver.kill()
    await store.dispose()
  }
}
