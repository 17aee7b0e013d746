/**
 * Ten thousand requests that wait for the decisions of people, the most that a replica holds, in five organizations: memory, processor time and
 * database transactions while nothing happens, and the time from a decision's answer to the answer of the request that waits for it.
 */
import { ManagedRuntime, Redacted } from "effect"
import { execFile } from "node:child_process"
import { randomBytes } from "node:crypto"
import { setTimeout as pause } from "node:timers/promises"
import { promisify } from "node:util"
import { Agent, Pool } from "undici"
import { nodeFlags } from "../nodeFlags.js"
import * as Database from "../../src/server/store/Database.ts"
import { line, machine, quantile, residentMegabytes } from "./measure.ts"
import { startService, startStore } from "./service.ts"
import { whileQuiet } from "./whileQuiet.ts"

const ORGANIZATIONS = 5
/** The limit of an organization. */
const WAITS = 2_000
const STEPS_OF_SESSION = 5
const CONCURRENT_OPENS = 50
/** In this time about as many waits ask again without a signal as in any other. */
const QUIET_SECONDS = 25
const DECISIONS = 200
const DECISIONS_PER_SECOND = 25

const store = await startStore()
const url = await store.database("waits")
const database = ManagedRuntime.make(Database.layer({ url, maxConnections: 1 }))
const environment = {
  COUNTERSIGN_MASTER_KEY: randomBytes(32).toString("base64"),
  // The default is the number of the waits, each of which has its own.
  COUNTERSIGN_CONNECTION_LIMIT: "12000"
}
const service = await startService(url, environment)
const address = `http://127.0.0.1:${service.port}`
const calls = new Pool(address, { connections: 16 })
const waits = new Agent({
  connections: ORGANIZATIONS * WAITS,
  bodyTimeout: 0,
  headersTimeout: 0,
  pipelining: 1,
  connect: { timeout: 60_000 }
})

const call = async (key: string, method: "POST" | "PUT", path: string, body: object): Promise<unknown> => {
  const response = await calls.request({
    method,
    path,
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: JSON.stringify(body)
  })
  const text = await response.body.text()
  if (response.statusCode >= 300) throw new Error(`${method} ${path}: ${response.statusCode} ${text}`)
  return JSON.parse(text)
}

const member = (value: unknown, name: string): string =>
  String(typeof value === "object" && value !== null ? Reflect.get(value, name) : undefined)

/** Creates another organization with the command line, and returns an admin key of it. */
const createKey = async (organization: string): Promise<string> => {
  const { stdout } = await promisify(execFile)(
    process.execPath,
    [...nodeFlags, "src/main.ts", "keys", "create", "--org", organization, "--preset", "admin"],
    {
      env: {
        PATH: process.env["PATH"],
        DATABASE_URL: Redacted.value(url),
        COUNTERSIGN_USER: "root",
        ...environment
      }
    }
  )
  return /csk_\w+/.exec(stdout)?.[0] ?? ""
}

/** A step that waits for a person. */
interface PendingStep {
  readonly key: string
  readonly path: string
  readonly body: string
  readonly approval_id: string
}

/** Asks about the steps of one session, each of which then waits for a person. */
const askSession = async (key: string): Promise<ReadonlyArray<PendingStep>> => {
  const path = `/v1/agent-sessions/${member(await call(key, "POST", "/v1/agent-sessions", {}), "session_id")}/steps`
  return Promise.all(
    Array.from({ length: STEPS_OF_SESSION }, async (_, n) => {
      const step = { step_id: `step-${n}`, tool: "payments.refund", action_class: "write", arguments: { n } }
      const approval_id = member(await call(key, "POST", path, step), "approval_id")
      return { key, path, body: JSON.stringify(step), approval_id }
    })
  )
}

/** Waits for the decision of a step. */
const wait = async ({
  body,
  key,
  path
}: PendingStep): Promise<{ readonly at: number; readonly decision: string }> => {
  const response = await waits.request({
    origin: address,
    method: "POST",
    path: `${path}?wait_seconds=60`,
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body
  })
  const answer: unknown = await response.body.json()
  if (response.statusCode !== 200) throw new Error(`wait: ${response.statusCode} ${member(answer, "detail")}`)
  return { decision: member(answer, "decision"), at: performance.now() }
}

try {
  const keys = [service.key]
  while (keys.length < ORGANIZATIONS) keys.push(await createKey(`organization ${keys.length}`))
  const steps: Array<PendingStep> = []
  for (const key of keys) {
    await call(key, "PUT", "/v1/approval-rules", {
      rules: [{ effect: "require_approval", self_approval: true }]
    })
    for (let asked = 0; asked < WAITS; asked += STEPS_OF_SESSION) steps.push(...(await askSession(key)))
  }
  console.log(machine())
  const idle = await whileQuiet(database, service.pid, QUIET_SECONDS)
  const before = residentMegabytes(service.pid)
  const opening = performance.now()
  const waiting: Array<ReturnType<typeof wait>> = []
  for (let at = 0; at < steps.length; at += CONCURRENT_OPENS) {
    waiting.push(...steps.slice(at, at + CONCURRENT_OPENS).map(wait))
    // 500 a second: more at once overflow the queue in which the kernel keeps new connections.
    await pause(CONCURRENT_OPENS * 2)
  }
  const opened = (performance.now() - opening) / 1_000
  const quiet = await whileQuiet(database, service.pid, QUIET_SECONDS)
  console.log(line(`opening ${steps.length} waits`, [opened], "s"))
  console.log(line("memory, no waits", [before], "MB"))
  console.log(line(`memory, ${steps.length} waits`, [residentMegabytes(service.pid)], "MB"))
  console.log(line("processor, no waits", [idle.processor], "%"))
  console.log(line(`processor, ${steps.length} waits`, [quiet.processor], "%"))
  console.log(line("transactions a second, no waits", [idle.transactions], ""))
  console.log(line(`transactions a second, ${steps.length} waits`, [quiet.transactions], ""))

  /** Decides a step, and returns how much later its wait was answered. */
  const decide = async (index: number): Promise<number> => {
    const [step, answer] = [steps[index], waiting[index]]
    if (step === undefined || answer === undefined) throw new Error(`no step ${index}`)
    await call(step.key, "POST", `/v1/agent-approvals/${step.approval_id}/decide`, { decision: "approve" })
    const answered = performance.now()
    const { at, decision } = await answer
    if (decision !== "allow") throw new Error(`a wait ended with ${decision}`)
    return at - answered
  }
  const decided: Array<Promise<number>> = []
  for (let count = 0; count < DECISIONS; count++) {
    decided.push(decide((count * 7_919) % steps.length))
    await pause(1_000 / DECISIONS_PER_SECOND)
  }
  const latencies = await Promise.all(decided)
  console.log(
    `from a decision's answer to that of its wait: p50 ${quantile(latencies, 0.5).toFixed(1)} ms, p99 ${quantile(latencies, 0.99).toFixed(1)} ms, longest ${Math.max(...latencies).toFixed(1)} ms`
  )
  const others = await Promise.all(waiting)
  console.log(
    `${others.filter(({ decision }) => decision === "pending").length} waits ended without a decision`
  )
} finally {
  service.child.kill("SIGTERM")
  await service.ended
  await Promise.all([calls.destroy(), waits.destroy(), database.dispose()])
  await store.dispose()
}
