/**
 * One endpoint of fifty that hangs, through the service: every approval that is asked for goes to all endpoints of its organization, of which
 * one accepts requests and never answers, and has the most deliveries queued that it may have. Measured is the time from the request to
 * each receipt of the other endpoints, beside a second service whose endpoints all answer, in interleaved rounds; and the processor time of an
 * approval with all its deliveries. `BENCH_MAIN` names the entry point of another build.
 */
import { Effect, ManagedRuntime, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { setTimeout as pause } from "node:timers/promises"
import { Pool } from "undici"
import * as Database from "../../../src/server/store/Database.ts"
import { shardOf } from "../../../src/server/delivery/Delivery/Shards.ts"
import { atMost, line, machine, processorSeconds, quantile } from "../measure.ts"
import { startService, startStore } from "../service.ts"
import { latencyLine, startReceiver } from "./harness.ts"
import { HANGING_PATH } from "./message.ts"
import { nowMicros } from "./protocol.ts"

const ENDPOINTS = 50
const QUEUED = 10_000
const EVENTS_PER_SECOND = 4
const ROUND_MILLIS = 5_000
const ROUNDS = 6

const decodeEndpoint = Schema.decodeUnknownSync(
  Schema.fromJsonString(Schema.Struct({ endpoint: Schema.Struct({ id: Schema.String }) }))
)
const decodeSession = Schema.decodeUnknownSync(
  Schema.fromJsonString(Schema.Struct({ session_id: Schema.String }))
)
const decodeStep = Schema.decodeUnknownSync(
  Schema.fromJsonString(Schema.Struct({ approval_id: Schema.String }))
)

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
    const round = async () => {
      await receiver.take()
      const before = receiver.count()
      const usage = () => processorSeconds(service.pid) + store.processorSeconds()
      const begin = [performance.now(), usage()] as const
      const under: Array<ReturnType<typeof ask>> = []
      for (let at = 0; at < ROUND_MILLIS; at += 1_000 / EVENTS_PER_SECOND) {
        await pause(Math.max(0, begin[0] + at - performance.now()))
        under.push(ask())
      }
      const asked = new Map(await Promise.all(under))
      await receiver.until(before + asked.size * (ENDPOINTS - 1))
      await pause(200)
      const cost = ((usage() - begin[1]) * 1e3) / asked.size
      const approvals = await eventApprovals()
      const millis = (await receiver.take()).flatMap(([key, at]) => {
        const [path = "", event = ""] = key.split(" ")
        const due = asked.get(approvals.get(event) ?? "")
        return due === undefined || path === lastPath ? [] : [(at - due) / 1_000]
      })
      return { cost, millis }
    }
    return { service, last, round, run: database.runPromise.bind(database), close: () => pool.destroy() }
  }

  try {
    const calm = await startSide("calm", `/${ENDPOINTS}`)
    services.push(calm)
    const beside = await startSide("hanging", HANGING_PATH)
    services.push(beside)
    await beside.run(fillQueue(beside.last))
    const all: [Array<number>, Array<number>] = [[], []]
    const costs: [Array<number>, Array<number>] = [[], []]
    const ratios: Array<number> = []
    for (let round = -1; round < ROUNDS; round++) {
      const free = await calm.round()
      const held = await beside.round()
      if (round < 0) continue
      all[0].push(...free.millis)
      all[1].push(...held.millis)
      costs[0].push(free.cost)
      costs[1].push(held.cost)
      ratios.push(quantile(held.millis, 0.99) / quantile(free.millis, 0.99))
    }
    console.log(`\n${machine()}, PostgreSQL 18 embedded, fsync on`)
    console.log(
      `${EVENTS_PER_SECOND} approvals a second to ${ENDPOINTS} endpoints, ${ROUNDS} interleaved rounds: request to receipt\n`
    )
    console.log(latencyLine("every endpoint answers", all[0]))
    console.log(latencyLine(`one hangs, ${QUEUED} queued for it`, all[1]))
    console.log(atMost("p99 beside the hanging endpoint, ratio", ratios, 1.25, "times"))
    console.log(line("processor time of an approval, all answer", costs[0], "ms"))
    console.log(line("processor time of an approval, one hangs", costs[1], "ms"))
  } finally {
    for (const { close, service } of services) {
      service.child.kill("SIGKILL")
      await close()
    }
    receiver.kill()
    await store.dispose()
  }
}
