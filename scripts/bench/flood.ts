/**
 * How much one tenant can slow the others. Two parts, both by default:
 *
 * - `loop`: the longest time that one request holds the event loop, for every operation that takes a body and every
 *   kind of body that costs much for its size, refused or accepted, and for large responses;
 * - `neighbors`: the latency of a second tenant's requests, while the first one (or a client without a key) sends one
 *   kind of request as fast as it can on 40 connections. Quiet rounds and rounds with a flood alternate.
 *
 * Further words select cases by a part of their name: `flood loop shapes`, `flood neighbors feedback`. Without `full`,
 * which takes about 15 minutes, each flood is measured once and only the bodies that cost most are sent: about 5
 * minutes. The service limits requests per key as by default.
 *
 * The latencies include processor time of other processes: the flood itself, PostgreSQL and this one. Two figures tell
 * that from what the service does: `wait` is how long a request waits for the service's event loop (99th percentile),
 * in processor time; and each flood is also sent to another service with a database of its own, where it takes
 * processor time from the measured one and nothing else: what it slows down there, no limit of the service can prevent.
 */
import { execFile, spawn } from "node:child_process"
import { randomBytes } from "node:crypto"
import { once } from "node:events"
import { fileURLToPath } from "node:url"
import { promisify } from "node:util"
import { Context, Redacted } from "effect"
import { Api } from "../../src/api/Api.ts"
import { BodyLimit } from "../../src/api/Middleware.ts"
import { nodeFlags } from "../nodeFlags.js"
import { create, memberOf, send, type Tenant, tenantOf } from "./flood/api.ts"
import { type Attack, attacksOf } from "./flood/attacks.ts"
import { accepted, type Kind, kinds, unlimited, values } from "./flood/bodies.ts"
import { type Seed, seedBasics, seedLists } from "./flood/seed.ts"
import { evenly, machine, quantile } from "./measure.ts"
import { freePort, startService, startStore } from "./service.ts"

/** The longest time that a request may hold the event loop, in milliseconds. */
const LONGEST_HOLD = 50

/** How much slower the 99th percentile of a second tenant may become. */
const SLOWDOWN = 1.5

/** Requests of the second tenant per second, seconds of a round, and rounds of each sort. */
const NEIGHBOR_RATE = 50
const ROUND_SECONDS = 2
const ROUNDS = 1
const FULL_ROUNDS = 3

/** The kinds of bodies that cost most. */
const COSTLY: ReadonlyArray<Kind> = ["members", "nestedMembers", "nested", "numbers"]

/** Times that a request over the limit is sent: the least time counts, because the machine interrupts processes too. */
const TRIALS = 3

const MIB = 2 ** 20

interface Bench {
  readonly first: Tenant
  readonly second: Tenant
  readonly seed: Seed
  /** A tenant of another service, and its resources. */
  readonly elsewhere: { readonly tenant: Tenant; readonly seed: Seed }
  readonly selects: (name: string) => boolean
  readonly isFull: boolean
  /** The port of the probe. */
  readonly probe: number
}

/** The longest passes of the service's event loop since the last call, and the wait for it. */
const longestPass = async (port: number) => {
  const text = await (await fetch(`http://127.0.0.1:${port}`)).text()
  const numberOf = (member: string) => Number(memberOf(text, member))
  return { processor: numberOf("processor"), wall: numberOf("wall"), wait: numberOf("wait") }
}

const verdict = (holds: boolean): string => {
  if (!holds) process.exitCode = 1
  return holds ? "holds" : "MISSED"
}

/** A request with a body, and the list whose first item it creates. */
interface BodyCase {
  readonly name: string
  readonly method: string
  readonly path: string
  readonly body: () => string
  readonly list?: string
}

/** Every body that is sent once: by operation and kind. */
const bodiesOf = (seed: Seed, isFull: boolean) => {
  const cases: Array<BodyCase> = []
  for (const group of Object.values(Api.groups)) {
    for (const endpoint of Object.values(group.endpoints)) {
      if (endpoint.payload.size === 0) continue
      const limit = Number(Context.get(endpoint.annotations, BodyLimit)) - 1_024
      for (const kind of isFull ? kinds : COSTLY.slice(0, 1)) {
        for (const [size, name] of [
          [accepted(limit), "within limits"],
          [unlimited(limit), "beyond limits"]
        ] as const) {
          cases.push({
            name: `${group.identifier}.${endpoint.identifier}: ${kind} ${name}, other members`,
            method: endpoint.method,
            path: endpoint.path.replaceAll(/:\w+/g, seed.task),
            body: () => `{"x":${values[kind](size)}}`
          })
        }
      }
    }
  }
  let number = 0
  for (const kind of isFull ? kinds : COSTLY) {
    const value = () => values[kind](accepted(4 * MIB - 1_024))
    const step = (id: number) =>
      `{"step_id":"${kind} ${id}","tool":"send_payment","action_class":"write","arguments":${value()}}`
    const inObject = () => (kind === "members" ? value() : `{"a":${value()}}`)
    cases.push(
      {
        name: `run: ${kind}`,
        method: "POST",
        path: `/v1/tasks/${seed.task}/run`,
        body: () => `{"input":${inObject()},"answer":{}}`
      },
      {
        name: `step: ${kind}`,
        method: "POST",
        path: `/v1/agent-sessions/${seed.session}/steps`,
        body: () => step(number++),
        list: "/v1/agent-approvals"
      },
      {
        name: `repeated step: ${kind}`,
        method: "POST",
        path: `/v1/agent-sessions/${seed.session}/steps`,
        body: () => step(number - 1)
      },
      {
        name: `feedback: ${kind}`,
        method: "POST",
        path: "/v1/feedback",
        body: () => `{"inference_log_id":"${seed.run}","score":1,"correction":${inObject()}}`,
        list: "/v1/feedback"
      },
      {
        name: `feedback of an unknown run: ${kind}`,
        method: "POST",
        path: "/v1/feedback",
        body: () => `{"inference_log_id":"${"a".repeat(32)}","score":1,"correction":${inObject()}}`
      },
      {
        name: `session metadata: ${kind}`,
        method: "POST",
        path: "/v1/agent-sessions",
        body: () =>
          `{"metadata":${kind === "members" ? values[kind](accepted(MIB - 1_024)) : `{"a":${values[kind](accepted(MIB - 1_024))}}`}}`
      },
      {
        name: `dataset: ${kind}`,
        method: "POST",
        path: `/v1/tasks/${seed.task}/datasets`,
        body: () =>
          `{"base_dataset_id":"${seed.dataset}","examples":[{"input":{"a":${values[kind](accepted(MIB - 1_024))}},"answer":{}}]}`
      }
    )
  }
  return cases
}

/** Part `loop`. */
const measureLoop = async ({ first, isFull, probe, seed, selects }: Bench): Promise<void> => {
  console.log("\nLongest pass of the event loop during one request, in ms (processor time, and wall time):")
  const report = async (name: string, request: () => Promise<{ readonly status: number }>) => {
    const passes: Array<{ readonly processor: number; readonly wall: number }> = []
    let status = 0
    const least = (of: "processor" | "wall") => Math.min(...passes.map((pass) => pass[of]))
    while (passes.length < TRIALS && least("processor") > LONGEST_HOLD) {
      await longestPass(probe)
      status = (await request()).status
      passes.push(await longestPass(probe))
    }
    const processor = least("processor")
    return { name, status, processor, wall: least("wall"), isOver: processor > LONGEST_HOLD }
  }
  const results: Array<Awaited<ReturnType<typeof report>>> = []
  for (const { body, list, method, name, path } of bodiesOf(seed, isFull)) {
    if (!selects(name)) continue
    results.push(await report(name, () => send(first, method, path, body())))
    if (list === undefined) continue
    results.push(await report(`${name}, listed`, () => send(first, "GET", `${list}?limit=1`)))
  }
  const paths = [
    "/v1/agent-approvals?limit=100",
    "/v1/feedback?limit=100",
    "/v1/agent-sessions?limit=100",
    `/v1/tasks/${seed.task}/feedback/preview?limit=100`
  ]
  for (const path of paths) {
    if (selects(path)) results.push(await report(`GET ${path.slice(3)}`, () => send(first, "GET", path)))
  }
  const worst = results.toSorted((left, right) => right.processor - left.processor)
  const shown = worst.filter(({ isOver }, index) => isOver || index < 25)
  for (const { isOver, name, processor, status, wall } of shown) {
    console.log(
      `${name.padEnd(72)} ${status}  ${processor.toFixed(0).padStart(5)} ${wall.toFixed(0).padStart(6)}${isOver ? "  MISSED" : ""}`
    )
  }
  const missed = worst.filter(({ isOver }) => isOver).length
  console.log(
    `${results.length} requests, at most ${LONGEST_HOLD} ms of processor time: ${verdict(missed === 0)}${missed === 0 ? "" : ` by ${missed}`}`
  )
}

const attackerFile = fileURLToPath(new URL("flood/attacker.ts", import.meta.url))

/** Starts an attack, and returns how to end it: its numbers of responses. */
const startAttack = (tenant: Tenant, attack: Attack) => {
  const child = spawn(process.execPath, [attackerFile], { stdio: ["pipe", "pipe", "inherit"] })
  let output = ""
  child.stdout.setEncoding("utf8").on("data", (chunk: string) => (output += chunk))
  child.stdin.write(`${JSON.stringify({ ...tenant, attack })}\n`)
  return async (): Promise<string> => {
    child.stdin.end()
    await once(child, "close")
    return output.trim()
  }
}

/** Part `neighbors`. */
const measureNeighbors = async ({
  elsewhere,
  first,
  isFull,
  probe,
  second,
  seed,
  selects
}: Bench): Promise<void> => {
  const session = await create(second, "POST", "/v1/agent-sessions", {}, "session_id")
  let calls = 0
  const call = () =>
    calls++ % 2 === 0
      ? send(second, "POST", "/v1/agent-sessions", "{}")
      : send(second, "GET", `/v1/agent-sessions/${session}`)
  const round = () => evenly(NEIGHBOR_RATE, ROUND_SECONDS, call)
  const roundBeside = async (tenant: Tenant, attack: Attack) => {
    const end = startAttack(tenant, attack)
    // The process of the attack takes this long to start.
    await new Promise((resolve) => setTimeout(resolve, 500))
    await longestPass(probe)
    const latencies = await round()
    const { wait } = await longestPass(probe)
    return { latencies, wait, answers: await end() }
  }
  await round()
  const attacksElsewhere = new Map(attacksOf(elsewhere.seed).map((attack) => [attack.name, attack]))
  const results: Array<Slowdown> = []
  for (const attack of attacksOf(seed)) {
    if (!selects(attack.name)) continue
    const result: Slowdown = {
      name: attack.name,
      quiet: [],
      beside: [],
      besideOther: [],
      wait: 0,
      answers: ""
    }
    for (let index = 0; index < (isFull ? FULL_ROUNDS : ROUNDS); index++) {
      result.quiet.push(...(await round()))
      const flood = await roundBeside(first, attack)
      result.beside.push(...flood.latencies)
      result.wait = Math.max(result.wait, flood.wait)
      result.answers = flood.answers
      const other = await roundBeside(elsewhere.tenant, attacksElsewhere.get(attack.name) ?? attack)
      result.besideOther.push(...other.latencies)
    }
    results.push(result)
  }
  report(results)
}

/** The latencies of the second tenant in the rounds of one attack, in milliseconds. */
interface Slowdown {
  readonly name: string
  readonly quiet: Array<number>
  readonly beside: Array<number>
  /** Beside the same flood of another service. */
  readonly besideOther: Array<number>
  wait: number
  /** The responses to the flood in its last round. */
  answers: string
}

/**
 * Prints the results. They are compared with the quiet rounds of all attacks together: in a 99th percentile of a few
 * hundred requests, the two or three slowest decide.
 */
const report = (results: ReadonlyArray<Slowdown>): void => {
  const quiet = quantile(
    results.flatMap((result) => result.quiet),
    0.99
  )
  console.log(
    `\nLatency of a second tenant, in ms (${NEIGHBOR_RATE} requests/s: quiet p50 and p99, beside a flood p50 and p99; wait; p99 beside the same flood of another service).`
  )
  console.log(
    `All quiet rounds together: p99 ${quiet.toFixed(1)}. The goal is at most ${SLOWDOWN} times that.`
  )
  for (const { answers, beside, besideOther, name, quiet: own, wait } of results) {
    const during = quantile(beside, 0.99)
    const other = quantile(besideOther, 0.99)
    const figures = [quantile(own, 0.5), quantile(own, 0.99), quantile(beside, 0.5), during, wait, other]
    console.log(
      `${name.padEnd(26)} ${figures.map((value) => value.toFixed(1).padStart(7)).join(" ")}   × ${(during / quiet).toFixed(1)}: ${verdict(during <= SLOWDOWN * quiet)}; × ${(during / other).toFixed(1)} of the other service's   [${answers}]`
    )
  }
}

/** Creates another organization with the command line, and returns an admin key of it. */
const createTenant = async (
  environment: Readonly<Record<string, string>>,
  { port }: { readonly port: number }
): Promise<Tenant> => {
  const { stdout } = await promisify(execFile)(
    process.execPath,
    [...nodeFlags, "src/main.ts", "keys", "create", "--org", "Second", "--preset", "admin"],
    { env: environment }
  )
  const key = /csk_\w+/.exec(stdout)?.[0]
  if (key === undefined) throw new Error(`No key in: ${stdout}`)
  return { port, key }
}

/** Runs the benchmark. */
export const run = async (words: ReadonlyArray<string>): Promise<void> => {
  const parts: ReadonlyArray<string> = words.filter((word) => word === "loop" || word === "neighbors")
  const isFull = words.includes("full")
  const cases = words.filter((word) => word !== "full" && !parts.includes(word))
  const selects = (name: string): boolean => cases.length === 0 || cases.some((part) => name.includes(part))
  console.log(machine())
  const store = await startStore()
  const probe = await freePort()
  const url = await store.database("flood")
  const environment = {
    COUNTERSIGN_MASTER_KEY: randomBytes(32).toString("base64"),
    // As by default. Other benchmarks switch the limits off.
    COUNTERSIGN_RATE_LIMIT_PER_SECOND: "500",
    COUNTERSIGN_ORGANIZATION_RATE_LIMIT_PER_SECOND: "1000",
    // Required by the next two, which let deliveries fail at a closed port.
    NODE_ENV: "development",
    COUNTERSIGN_EGRESS_ALLOW: "127.0.0.1/32",
    COUNTERSIGN_EGRESS_HTTP: "true"
  }
  const other = await startService(await store.database("elsewhere"), environment)
  const service = await startService(url, {
    ...environment,
    BENCH_PROBE_PORT: String(probe),
    NODE_OPTIONS: `--import=${new URL("flood/probe.ts", import.meta.url).href}`
  })
  try {
    const first = tenantOf(service)
    const seed = await seedBasics(first)
    await seedLists(first, seed)
    const second = await createTenant(
      { ...environment, DATABASE_URL: Redacted.value(url), PATH: process.env["PATH"] ?? "" },
      service
    )
    const tenant = tenantOf(other)
    const elsewhere = { tenant, seed: await seedBasics(tenant) }
    await seedLists(tenant, elsewhere.seed)
    const bench = { first, isFull, probe, second, seed, selects, elsewhere }
    if (parts.length === 0 || parts.includes("neighbors")) await measureNeighbors(bench)
    if (parts.length === 0 || parts.includes("loop")) await measureLoop(bench)
  } finally {
    for (const { child, ended } of [service, other]) {
      child.kill("SIGTERM")
      await ended
    }
    await store.dispose()
  }
}
