/**
 * Memory and processor time at rest, of the service and PostgreSQL together, after a warm-up that has loaded all code
 * and filled caches. The service runs as `npm start` runs it, with production durability. No request is sent while it
 * is measured.
 */
import { residentShare, startService, startStore } from "./service.ts"
import { atMost, line, machine, processorSeconds } from "./measure.ts"

/** Sessions of the warm-up, each with one allowed and one decided step. */
const SESSIONS = 150

/** Statements, timers and vacuum that follow the warm-up are done after this time, in seconds. */
const SETTLE = 15

const ROUNDS = 4
const ROUND_SECONDS = 10

const pause = (seconds: number) => new Promise((resolve) => setTimeout(resolve, seconds * 1_000))

const store = await startStore()
const service = await startService(await store.database("rest"))
console.log(machine())

const call = async (method: string, path: string, body?: object): Promise<unknown> => {
  const response = await fetch(`http://127.0.0.1:${service.port}${path}`, {
    method,
    headers: { authorization: `Bearer ${service.key}`, "content-type": "application/json" },
    ...(body === undefined ? {} : { body: JSON.stringify(body) })
  })
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`)
  return response.json()
}

const member = (value: unknown, name: string): string =>
  String(typeof value === "object" && value !== null ? Reflect.get(value, name) : undefined)

const session = async () => {
  const id = member(await call("POST", "/v1/agent-sessions", {}), "session_id")
  const step = (tool: string) =>
    call("POST", `/v1/agent-sessions/${id}/steps`, { step_id: tool, tool, action_class: "write" })
  await step("files.read")
  const { approval_id } = { approval_id: member(await step("payments.refund"), "approval_id") }
  await call("POST", `/v1/agent-approvals/${approval_id}/decide`, { decision: "approve" })
}

await call("PUT", "/v1/approval-rules", {
  rules: [
    { tool: "files.*", effect: "allow" },
    { effect: "require_approval", self_approval: true }
  ]
})
for (let done = 0; done < SESSIONS; done += 10) await Promise.all(Array.from({ length: 10 }, session))
await pause(SETTLE)

const memory = { server: new Array<number>(), database: new Array<number>(), both: new Array<number>() }
const processor = { server: new Array<number>(), database: new Array<number>(), both: new Array<number>() }
for (let round = 0; round < ROUNDS; round++) {
  const before = { server: processorSeconds(service.pid), database: store.processorSeconds() }
  const began = performance.now()
  await pause(ROUND_SECONDS)
  const percent = (seconds: number) => (100_000 * seconds) / (performance.now() - began)
  const server = percent(processorSeconds(service.pid) - before.server)
  const database = percent(store.processorSeconds() - before.database)
  processor.server.push(server)
  processor.database.push(database)
  processor.both.push(server + database)
  const [serverMemory, databaseMemory] = [residentShare(service.pid), store.megabytes()]
  memory.server.push(serverMemory)
  memory.database.push(databaseMemory)
  memory.both.push(serverMemory + databaseMemory)
}
console.log(line("memory at rest, service", memory.server, "MB"))
console.log(line("memory at rest, PostgreSQL", memory.database, "MB"))
console.log(atMost("memory at rest, both", memory.both, 200, "MB"))
console.log(line("processor at rest, service", processor.server, "%"))
console.log(line("processor at rest, PostgreSQL", processor.database, "%"))
console.log(atMost("processor at rest, both, of one core", processor.both, 1, "%"))

service.child.kill("SIGTERM")
await service.ended
await store.dispose()
