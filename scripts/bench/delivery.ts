/**
 * Signed webhooks, from the commit of an event to the receiver, which is a process of its own and answers at once: how many a second
 * are worked off, when they are committed by the hundred and one by one; how long after its commit an event arrives, on an idle service,
 * at 200 a second, and at a third of the peak of those committed one by one; and the same while 100,000 deliveries wait for endpoints that cool down. Everything but the receiver and PostgreSQL is in this one process.
 */
import { Array as Arr, Effect, Layer, ManagedRuntime, Redacted, Result } from "effect"
import { SqlClient } from "effect/sql"
import { fork } from "node:child_process"
import { randomBytes } from "node:crypto"
import { once } from "node:events"
import { mkdtempSync, rmSync } from "node:fs"
import { createServer } from "node:http"
import { tmpdir } from "node:os"
import path from "node:path"
import { setTimeout as pause } from "node:timers/promises"
import { fileURLToPath } from "node:url"
import { EndpointId, EventId, OrgId } from "../../src/domain/Ids.ts"
import { parseAllowances } from "../../src/domain/PublicAddress.ts"
import { generateSecret } from "../../src/domain/WebhookSignature.ts"
import * as Database from "../../src/server/Database.ts"
import { Delivery } from "../../src/server/Delivery.ts"
import { Egress } from "../../src/server/Egress.ts"
import { EmbeddedPostgres } from "../../src/server/EmbeddedPostgres.ts"
import { endpointPlace } from "../../src/server/Notifications/rows.ts"
import * as WebhookChannel from "../../src/server/Notifications/WebhookChannel.ts"
import { SecretBox } from "../../src/server/SecretBox.ts"
import { StoreClock } from "../../src/server/StoreClock.ts"
import { line, machine, median, quantile } from "./measure.ts"

const endpoints = 50
const organizations = 10
const perRound = 10_000
const rounds = 7
const warmUp = 2
const idleEvents = 300
/** Transactions of one event, and how many at once. */
const oneByOneRound = 2_000
const committers = 8
const loadSeconds = 8
const coolingEndpoints = 100
const waitingPerEndpoint = 1_000

/** The monotonic clock is the machine's: both processes read the same. */
const nowMicros = (): number => Number(process.hrtime.bigint() / 1_000n)

if (process.argv[2] === "receiver") {
  let arrivals: Array<readonly [string, number]> = []
  const server = createServer((request, response) => {
    arrivals.push([String(request.headers["x-svc-event-id"]), nowMicros()])
    request.resume()
    response.writeHead(204).end()
  })
  server.listen(0, "127.0.0.1", () => {
    const address = server.address()
    process.send?.(typeof address === "object" && address !== null ? address.port : 0)
  })
  setInterval(() => {
    if (arrivals.length === 0) return
    process.send?.(arrivals)
    arrivals = []
  }, 20)
} else {
  await main()
}

async function main() {
  const dataDir = mkdtempSync(path.join(tmpdir(), "countersign-bench-"))
  const receiver = fork(fileURLToPath(import.meta.url), ["receiver"])
  const [port] = await once(receiver, "message")
  const arrived = new Map<string, number>()
  let watching = { count: Infinity, done: () => {} }
  receiver.on("message", (list: ReadonlyArray<readonly [string, number]>) => {
    for (const [event, at] of list) arrived.set(event, at)
    if (arrived.size >= watching.count) watching.done()
  })
  const untilArrived = (count: number) =>
    arrived.size >= count ? Promise.resolve() : new Promise<void>((done) => (watching = { count, done }))

  const store = Layer.unwrap(
    Effect.map(EmbeddedPostgres, ({ url }) =>
      Database.layerMigrated.pipe(Layer.provideMerge(Database.layer({ url })))
    )
  ).pipe(Layer.provide(EmbeddedPostgres.layer({ dataDir })))
  const services = Layer.mergeAll(
    SecretBox.layer({ masterKeys: [Redacted.make(randomBytes(32).toString("base64"))] }),
    Egress.layer({
      dnsServers: [],
      allow: Result.getOrThrow(parseAllowances("127.0.0.1/32")),
      allowHttp: true,
      deny: [],
      ownHost: undefined
    }),
    StoreClock.layer
  ).pipe(Layer.provideMerge(store))
  const runtime = ManagedRuntime.make(
    Delivery.layer(Effect.all([WebhookChannel.make({ queueLimit: 1_000_000 })])).pipe(
      Layer.provideMerge(services)
    )
  )

  const body = Buffer.from(JSON.stringify({ id: "evt", type: "approval.requested", text: "x".repeat(800) }))

  interface Target {
    readonly org_id: OrgId
    readonly destination_id: EndpointId
  }

  const makeEndpoint = Effect.fnUntraced(function* (org_id: OrgId, url: string) {
    const sql = yield* SqlClient.SqlClient
    const box = yield* SecretBox
    const endpoint_id = yield* EndpointId.generate
    yield* sql`INSERT INTO notification_endpoints ${sql.insert({
      org_id,
      endpoint_id,
      url: yield* box.seal(endpointPlace(org_id, endpoint_id, "url"), Redacted.make(url)),
      url_hint: "",
      secret: yield* box.seal(endpointPlace(org_id, endpoint_id, "secret"), yield* generateSecret),
      events: ["approval.requested"],
      active: true,
      created_at: new Date(),
      created_by_id: "key",
      created_by_name: "key"
    })}`
    return { org_id, destination_id: endpoint_id }
  })

  /** One transaction, as a service has it; the time right after its commit. */
  const publish = (targets: ReadonlyArray<Target>) =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const delivery = yield* Delivery
      const events = yield* Effect.forEach(targets, (target) =>
        Effect.map(EventId.generate, (event_id) => ({ ...target, event_id }))
      )
      yield* Database.transaction(
        Effect.gen(function* () {
          const rows = events.map(({ event_id, org_id }) => ({
            org_id,
            event_id,
            type: "approval.requested",
            approval_id: "apr",
            body,
            occurred_at: new Date()
          }))
          if (Arr.isArrayNonEmpty(rows)) yield* sql`INSERT INTO approval_events ${sql.insert(rows)}`
          yield* delivery.enqueue(events.map((event) => ({ ...event, channel: "webhook", label: "bench" })))
        })
      )
      const at = nowMicros()
      yield* delivery.wake
      return events.map(({ event_id }): readonly [string, number] => [event_id, at])
    })

  const latencies = (published: ReadonlyArray<readonly [string, number]>): ReadonlyArray<number> =>
    published.map(([event, at]) => ((arrived.get(event) ?? NaN) - at) / 1_000)

  const shown = (what: string, millis: ReadonlyArray<number>) =>
    console.log(
      `${what.padEnd(44)} p50 ${median(millis).toFixed(1)}  p95 ${quantile(millis, 0.95).toFixed(1)}  p99 ${quantile(millis, 0.99).toFixed(1)}  most ${Math.max(...millis).toFixed(1)} ms`
    )

  try {
    console.log(machine())
    const targets = await runtime.runPromise(
      Effect.gen(function* () {
        const orgs = [
          yield* OrgId.generate,
          ...(yield* Effect.replicateEffect(OrgId.generate, organizations - 1))
        ] as const
        return yield* Effect.forEach(
          Arr.makeBy(endpoints, (index) => index),
          (index) => makeEndpoint(orgs[index % organizations] ?? orgs[0], `http://127.0.0.1:${port}/${index}`)
        )
      })
    )
    const nth = (index: number): Target => targets[index % targets.length] ?? targets[0]

    const idle = async () => {
      const published: Array<readonly [string, number]> = []
      for (let count = 0; count < idleEvents; count++) {
        const before = arrived.size
        published.push(...(await runtime.runPromise(publish([nth(count)]))))
        await untilArrived(before + 1)
        await pause(10)
      }
      return latencies(published)
    }

    const atRate = async (perSecond: number) => {
      const published: Array<readonly [string, number]> = []
      const under: Array<Promise<unknown>> = []
      const before = arrived.size
      const begin = performance.now()
      const total = Math.round(perSecond * loadSeconds)
      for (let sent = 0; sent < total;) {
        const due = Math.min(total, Math.floor(((performance.now() - begin) / 1_000) * perSecond))
        for (; sent < due; sent++) {
          under.push(runtime.runPromise(publish([nth(sent)])).then((list) => published.push(...list)))
        }
        await pause(2)
      }
      await Promise.all(under)
      await untilArrived(before + total)
      return latencies(published)
    }

    /** Commits one event a transaction, so many at once; how many a second arrive. */
    const oneByOne = async () => {
      const before = arrived.size
      const begin = nowMicros()
      const published: Array<readonly [string, number]> = []
      let next = 0
      const worker = async () => {
        while (next < oneByOneRound) published.push(...(await runtime.runPromise(publish([nth(next++)]))))
      }
      await Promise.all(Array.from({ length: committers }, worker))
      await untilArrived(before + published.length)
      const last = Math.max(...published.map(([event]) => arrived.get(event) ?? 0))
      return published.length / ((last - begin) / 1e6)
    }

    const peak: Array<number> = []
    for (let round = 0; round < rounds; round++) {
      const before = arrived.size
      const published: Array<readonly [string, number]> = []
      for (let chunk = 0; chunk < perRound / 500; chunk++) {
        const list = Array.from({ length: 500 }, (_, index) => nth(index))
        published.push(...(await runtime.runPromise(publish(list))))
      }
      await untilArrived(before + perRound)
      const first = Math.min(...published.map(([, at]) => at))
      const last = Math.max(...published.map(([event]) => arrived.get(event) ?? 0))
      if (round >= warmUp) peak.push(perRound / ((last - first) / 1e6))
    }
    console.log(line("committed by 500, publishing included", peak, "deliveries/s"))
    const single: Array<number> = []
    for (let round = 0; round < rounds; round++) {
      const rate = await oneByOne()
      if (round >= warmUp) single.push(rate)
    }
    console.log(line("committed one by one, publishing included", single, "deliveries/s"))
    shown("idle: commit to arrival", await idle())
    shown("200 a second", await atRate(200))
    const third = Math.floor(median(single) / 3)
    shown(`${third} a second, a third of the peak`, await atRate(third))

    await runtime.runPromise(
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const delivery = yield* Delivery
        const org_id = yield* OrgId.generate
        for (let count = 0; count < coolingEndpoints; count++) {
          const cooling = yield* makeEndpoint(org_id, `http://127.0.0.1:1/${count}`)
          yield* sql`
            INSERT INTO delivery_destinations (org_id, destination_id, consecutive_failures, cooldown_round, cooldown_until)
            VALUES (${org_id}, ${cooling.destination_id}, 5, 1, now() + interval '1 hour')
          `
          yield* publish(Array.from({ length: waitingPerEndpoint }, () => cooling))
        }
        yield* delivery.wake
      })
    )
    // What the writing of the backlog itself costs the store is over by then.
    await pause(10_000)
    console.log(
      `with ${coolingEndpoints * waitingPerEndpoint} deliveries of ${coolingEndpoints} cooling endpoints waiting:`
    )
    shown("idle: commit to arrival", await idle())
    shown("200 a second", await atRate(200))
    shown(`${third} a second`, await atRate(third))
    console.log(`resident memory ${Math.round(process.memoryUsage().rss / 2 ** 20)} MiB`)
  } finally {
    await runtime.dispose()
    receiver.kill()
    rmSync(dataDir, { recursive: true, force: true })
  }
}
