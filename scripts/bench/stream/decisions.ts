/**
 * Decisions to the agents that wait for them: each session has an open event stream and a pending approval, which is
 * decided through the API at an even rate, open loop. Measured from when the decision's request was due, and from its
 * answer, to the event on the stream: with the stream on the replica that decides, and on another one.
 */
import { Effect, ManagedRuntime, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { randomBytes } from "node:crypto"
import { once } from "node:events"
import { connect, type Socket } from "node:net"
import { setTimeout as pause } from "node:timers/promises"
import { Pool } from "undici"
import * as Database from "../../../src/server/store/Database.ts"
import { line, machine, median, processorSeconds, quantile } from "../measure.ts"
import { type Service, startService, startStore } from "../service.ts"

const PER_SECOND = 200
const SESSIONS = 400
const ROUNDS = 5
const WARM_UP = 1

const decodeStep = Schema.decodeUnknownSync(
  Schema.fromJsonString(Schema.Struct({ approval_id: Schema.String }))
)
const sessionId = (number: number): string => `ses_${number.toString(16).padStart(32, "0")}`

/** An agent that follows its session. */
interface Follower {
  readonly socket: Socket
  /** When the event that decided this step arrived. */
  readonly decided: (step: string) => Promise<number>
}

const follow = async ({ key, port }: Service, number: number): Promise<Follower> => {
  const socket = connect(port, "127.0.0.1")
  await once(socket, "connect")
  const waiting = new Map<string, (at: number) => void>()
  socket.setEncoding("utf8").on("data", (text: string) => {
    const at = performance.now()
    if (!text.includes("approval:decided")) return
    for (const [step, arrived] of waiting) {
      if (!text.includes(`"${step}"`)) continue
      waiting.delete(step)
      arrived(at)
    }
  })
  socket.write(
    `GET /v1/agent-sessions/${sessionId(number)}/events/stream HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${key}\r\n\r\n`
  )
  await once(socket, "data")
  return { socket, decided: (step) => new Promise((resolve) => waiting.set(step, resolve)) }
}

/** Latencies in milliseconds, and processor time per decision in microseconds, of the rounds. */
const makeFigures = () => ({
  fromRequest: new Array<number>(),
  fromAnswer: new Array<number>(),
  cost: new Array<number>()
})

/** Runs the benchmark. */
export const decisions = async (): Promise<void> => {
  const store = await startStore()
  const url = await store.database("bench_decisions")
  const database = ManagedRuntime.make(Database.layer({ url, maxConnections: 1 }))
  const COUNTERSIGN_MASTER_KEY = randomBytes(32).toString("base64")
  const first = await startService(url, { COUNTERSIGN_MASTER_KEY })
  const second = await startService(url, { COUNTERSIGN_MASTER_KEY, COUNTERSIGN_ADMIN_KEY: first.key })
  const services = [first, second]
  const pool = new Pool(`http://127.0.0.1:${first.port}`, { connections: 64 })

  const call = async (method: "POST" | "PUT", path: string, body: unknown): Promise<string> => {
    const answer = await pool.request({
      method,
      path,
      headers: { authorization: `Bearer ${first.key}`, "content-type": "application/json" },
      body: JSON.stringify(body)
    })
    const text = await answer.body.text()
    if (answer.statusCode >= 300) throw new Error(`${path} got status ${answer.statusCode}: ${text}`)
    return text
  }

  let steps = 0
  const round = async (followers: ReadonlyArray<Follower>, figures: ReturnType<typeof makeFigures>) => {
    const pending: Array<{ readonly approval: string; readonly step: string; readonly index: number }> = []
    for (let from = 0; from < SESSIONS; from += 16) {
      const group = Array.from({ length: Math.min(16, SESSIONS - from) }, async (_, offset) => {
        const step = `step ${++steps}`
        const index = from + offset
        const { approval_id } = decodeStep(
          await call("POST", `/v1/agent-sessions/${sessionId(index)}/steps`, {
            step_id: step,
            tool: "pay",
            action_class: "write",
            arguments: {}
          })
        )
        pending.push({ approval: approval_id, step, index })
      })
      await Promise.all(group)
    }
    await pause(500)
    const usage = () =>
      services.reduce((sum, { pid }) => sum + processorSeconds(pid), store.processorSeconds())
    const before = usage()
    const begin = performance.now()
    const under = pending.map(async ({ approval, index, step }, place) => {
      const due = begin + (place * 1_000) / PER_SECOND
      await pause(Math.max(0, due - performance.now()))
      const arrived = followers[index]?.decided(step)
      await call("POST", `/v1/agent-approvals/${approval}/decide`, { decision: "approve" })
      const answered = performance.now()
      const at = (await arrived) ?? Number.NaN
      figures.fromRequest.push(at - due)
      figures.fromAnswer.push(at - answered)
    })
    await Promise.all(under)
    figures.cost.push(((usage() - before) * 1e6) / pending.length)
  }

  try {
    await database.runPromise(
      Effect.flatMap(
        SqlClient.SqlClient,
        (sql) => sql`
          INSERT INTO agent_sessions (org_id, session_id, trace_id, created_at, created_by_id, created_by_name, metadata, shared)
          SELECT org_id, 'ses_' || lpad(to_hex(n), 32, '0'), md5(n::text), now(), ${`key_${"0".repeat(32)}`}, 'bench', '{}', true
          FROM organizations, generate_series(0, ${SESSIONS}::int) AS n
        `
      )
    )
    await call("PUT", "/v1/approval-rules", {
      rules: [{ tool: "pay", effect: "require_approval", self_approval: true }]
    })
    const sides = [
      { name: "stream on the deciding replica", service: first, figures: makeFigures() },
      { name: "stream on another replica", service: { ...second, key: first.key }, figures: makeFigures() }
    ]
    for (let count = -WARM_UP; count < ROUNDS; count++) {
      for (const { figures, service } of sides) {
        const followers: Array<Follower> = []
        for (let from = 0; from < SESSIONS; from += 50) {
          const group = Array.from({ length: 50 }, (_, offset) => follow(service, from + offset))
          followers.push(...(await Promise.all(group)))
        }
        await round(followers, count < 0 ? makeFigures() : figures)
        for (const { socket } of followers) socket.destroy()
      }
    }
    console.log(
      `\n${machine()}, PostgreSQL 18 embedded, fsync on; ${PER_SECOND} decisions a second, ${ROUNDS} rounds`
    )
    for (const { figures, name } of sides) {
      const { cost, fromAnswer, fromRequest } = figures
      console.log(`\n${name}`)
      console.log(line("from the answer to the event, p50", [median(fromAnswer)], "ms"))
      console.log(line("from the answer to the event, p99", [quantile(fromAnswer, 0.99)], "ms"))
      console.log(line("from the request to the event, p50", [median(fromRequest)], "ms"))
      console.log(line("from the request to the event, p99", [quantile(fromRequest, 0.99)], "ms"))
      console.log(line("processor time of a decision, two replicas", cost, "µs"))
    }
  } finally {
    for (const { child } of services) child.kill("SIGKILL")
    await pool.destroy()
    await database.dispose()
    await store.dispose()
  }
}
