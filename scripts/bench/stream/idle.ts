/**
 * Ten thousand idle event streams on one replica, each of its own session: memory, and processor time and database transactions while
 * nothing happens; then the latency of an event to its subscriber, from the request that causes it and from that request's response; then
 * the same for one session with a thousand subscribers.
 */
import { Effect, ManagedRuntime } from "effect"
import { SqlClient } from "effect/sql"
import { connect, type Socket } from "node:net"
import { setTimeout as pause } from "node:timers/promises"
import { Pool } from "undici"
import * as Database from "../../../src/server/store/Database.ts"
import { line, machine, quantile, residentMegabytes } from "../measure.ts"
import { startService, startStore } from "../service.ts"
import { whileQuiet } from "../whileQuiet.ts"

const subscribers = 10_000
const concurrentOpens = 200
const quietSeconds = 30
const events = 1_000
const eventsPerSecond = 50
const followers = 1_000
const fanOutRounds = 20

const sessionId = (number: number): string => `ses_${number.toString(16).padStart(32, "0")}`

const out = (text: string): void => void process.stdout.write(`${text}\n`)
const spread = (what: string, values: ReadonlyArray<number>): void =>
  out(
    `${what.padEnd(44)} p50 ${quantile(values, 0.5).toFixed(1)} ms, p99 ${quantile(values, 0.99).toFixed(1)} ms, longest ${Math.max(...values).toFixed(1)} ms`
  )

const store = await startStore()
const url = await store.database("bench_stream")
const database = ManagedRuntime.make(Database.layer({ url, maxConnections: 2 }))
const connections = String(2 * (subscribers + followers))
const {
  child: service,
  ended,
  key: secret,
  pid,
  port
} = await startService(url, {
  COUNTERSIGN_CONNECTION_LIMIT: connections,
  COUNTERSIGN_CONNECTION_LIMIT_PER_ADDRESS: connections
})

/** Callbacks for the arrival of the next event, by stream. */
const arrivals = new Map<Socket, (at: number) => void>()

const subscribe = (number: number): Promise<Socket> =>
  new Promise((resolve, reject) => {
    const socket = connect(port, "127.0.0.1", () =>
      socket.write(
        `GET /v1/agent-sessions/${sessionId(number)}/events/stream HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${secret}\r\n\r\n`
      )
    )
    socket.on("error", reject)
    socket.on("close", () => reject(new Error("a stream was closed before it began")))
    socket.on("data", (data: Buffer) => {
      const at = performance.now()
      if (data.includes("retry: ")) resolve(socket)
      if (data.includes("\nevent: ")) arrivals.get(socket)?.(at)
    })
  })

const nextEvent = (socket: Socket): Promise<number> =>
  new Promise((resolve) => {
    arrivals.set(socket, (at) => {
      arrivals.delete(socket)
      resolve(at)
    })
  })

const subscribeAll = async (numbers: ReadonlyArray<number>): Promise<ReadonlyArray<Socket>> => {
  const sockets: Array<Socket> = []
  for (let at = 0; at < numbers.length; at += concurrentOpens) {
    sockets.push(...(await Promise.all(numbers.slice(at, at + concurrentOpens).map(subscribe))))
  }
  return sockets
}

const pool = new Pool(`http://127.0.0.1:${port}`, { connections: 8 })
let steps = 0

/** Submits a step that a rule allows, which causes one event of its session. Returns when it was sent and when it was answered. */
const cause = async (number: number): Promise<{ readonly sent: number; readonly answered: number }> => {
  const sent = performance.now()
  const { body, statusCode } = await pool.request({
    method: "POST",
    path: `/v1/agent-sessions/${sessionId(number)}/steps`,
    headers: { authorization: `Bearer ${secret}`, "content-type": "application/json" },
    body: JSON.stringify({ step_id: `step ${++steps}`, tool: "search", action_class: "read", arguments: {} })
  })
  const answered = performance.now()
  await body.dump()
  if (statusCode !== 200) throw new Error(`the step got status ${statusCode}`)
  return { sent, answered }
}

try {
  await database.runPromise(
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* sql`
        INSERT INTO agent_sessions (org_id, session_id, trace_id, created_at, created_by_id, created_by_name, metadata, shared)
        SELECT org_id, 'ses_' || lpad(to_hex(n), 32, '0'), md5(n::text), now(), ${`key_${"0".repeat(32)}`}, 'bench', '{}', true
        FROM organizations, generate_series(0, ${subscribers}::int) AS n
      `
      yield* sql`ANALYZE agent_sessions`
    })
  )
  const rules = await pool.request({
    method: "PUT",
    path: "/v1/approval-rules",
    headers: { authorization: `Bearer ${secret}`, "content-type": "application/json" },
    body: JSON.stringify({ rules: [{ tool: "search", effect: "allow" }] })
  })
  if (rules.statusCode !== 200) throw new Error(await rules.body.text())
  await rules.body.dump()
  for (let number = 0; number < 500; number++) await cause(0)

  out(machine())
  const idle = await whileQuiet(database, pid, quietSeconds)
  const before = residentMegabytes(pid)
  const opening = performance.now()
  const sockets = await subscribeAll(Array.from({ length: subscribers }, (_, index) => index + 1))
  const opened = performance.now() - opening
  out(line(`${subscribers} streams opened, per second`, [(subscribers / opened) * 1_000], ""))

  // PostgreSQL backends publish their statistics up to ten seconds later.
  await pause(15_000)
  const quiet = await whileQuiet(database, pid, quietSeconds)
  out(line("processor use of the service, no streams", [idle.processor], "%"))
  out(line(`processor use of the service, ${subscribers} idle streams`, [quiet.processor], "%"))
  out(line("transactions per second, no streams", [idle.transactions], ""))
  out(line(`transactions per second, ${subscribers} idle streams`, [quiet.transactions], ""))
  out(line("memory of the service, no streams", [before], "MB"))
  out(line(`memory of the service, ${subscribers} idle streams`, [residentMegabytes(pid)], "MB"))

  const fromCall: Array<number> = []
  const fromAnswer: Array<number> = []
  const pending: Array<Promise<number>> = []
  for (let event = 0; event < events; event++) {
    const index = (event * 7_919) % subscribers
    const socket = sockets[index]
    if (socket === undefined) continue
    const arrived = nextEvent(socket)
    pending.push(
      Promise.all([cause(index + 1), arrived]).then(([{ answered, sent }, at]) => {
        fromAnswer.push(at - answered)
        return fromCall.push(at - sent)
      })
    )
    await pause(1_000 / eventsPerSecond)
  }
  await Promise.all(pending)
  spread(`event, from the call (${eventsPerSecond} a second)`, fromCall)
  spread("event, from the call's answer", fromAnswer)

  const crowd = await subscribeAll(Array.from({ length: followers }, () => 0))
  await pause(2_000)
  const lasts: Array<number> = []
  for (let round = 0; round < fanOutRounds; round++) {
    const arrived = Promise.all(crowd.map(nextEvent))
    const { sent } = await cause(0)
    lasts.push(Math.max(...(await arrived)) - sent)
    await pause(100)
  }
  spread(`last of ${followers} followers of one session`, lasts)
  out(line("memory of the service at the end", [residentMegabytes(pid)], "MB"))

  const stopping = performance.now()
  service.kill("SIGTERM")
  await ended
  out(line(`stop with ${subscribers + followers} open streams`, [performance.now() - stopping], "ms"))
  for (const socket of [...sockets, ...crowd]) socket.destroy()
} finally {
  service.kill("SIGKILL")
  await pool.destroy()
  await database.dispose()
  await store.dispose()
}
