/**
 * What further replicas cost: `npm run bench -- replicas [steps|deliveries|streams …]`; without a part, all.
 *
 * The same requests at the same even rate, open loop, to one, two and four replicas on a database, each with databases and processes of its
 * own. Processor time is that of the replicas and of PostgreSQL for this database. A stream is on another replica than the one that takes
 * its session's steps, if there is one. `BENCH_BEFORE` names the entry point of an earlier build to measure beside, interleaved.
 */
import { Redacted } from "effect"
import { once } from "node:events"
import { connect } from "node:net"
import pg from "pg"
import { Pool } from "undici"
import { startReceiver } from "./delivery/harness.ts"
import { alternate, atMost, evenly, line, machine, median, processorSeconds, quantile } from "./measure.ts"
import { runParts } from "./runParts.ts"
import { type Service, startService, startStore, stopAll, type Store } from "./service.ts"
import { seed, type Seed, stepBody, type Tool, tools } from "./steps/seed.ts"

const REPLICAS = [1, 2, 4]

/** Processor time with four replicas by that with one, at most. */
const MOST = 1.4

const ROUNDS = 5
const SECONDS = 4

/** Requests of a case per second. The approvals are sent to each of the endpoints. */
const PER_SECOND = { steps: 300, deliveries: 40, streams: 100 }
const ENDPOINTS = 16

/** Sessions with a stream, as many on each replica. */
const FOLLOWED = 192

/** Replicas of one build on one database. */
interface Cluster {
  readonly build: "now" | "before"
  readonly services: ReadonlyArray<Service>
  readonly seeded: Seed
  readonly sql: pg.Pool
  /** Requests a step in a session of this number, on the replica with the number of the session. */
  readonly request: (session: number, tool: Tool) => Promise<unknown>
  /** Processor seconds so far. */
  readonly usage: () => number
}

let stepsSent = 0

const startCluster = async (
  store: Store,
  build: Cluster["build"],
  replicas: number,
  seeded: Seed
): Promise<Cluster> => {
  const database = `replicas_${replicas}`
  const url = await store.create(database, "seed")
  const main = build === "before" ? process.env["BENCH_BEFORE"] : undefined
  const services: Array<Service> = []
  for (let count = 0; count < replicas; count++)
    services.push(await startService(url, seeded.environment, main))
  const pools = services.map(({ port }) => new Pool(`http://127.0.0.1:${port}`, { connections: 16 }))
  const others = REPLICAS.map((count) => `replicas_${count}`).filter((name) => name !== database)
  return {
    build,
    services,
    seeded,
    sql: new pg.Pool({ connectionString: Redacted.value(url), max: 1 }),
    request: async (session, tool) => {
      const answer = await pools[session % replicas]?.request({
        path: `/v1/agent-sessions/${seeded.sessions[session % seeded.sessions.length] ?? ""}/steps`,
        method: "POST",
        headers: { authorization: `Bearer ${seeded.agent.secret}`, "content-type": "application/json" },
        body: stepBody(`step ${++stepsSent}`, tool)
      })
      const text = (await answer?.body.text()) ?? ""
      if (answer?.statusCode !== 200) throw new Error(`A step was answered ${answer?.statusCode}: ${text}`)
    },
    usage: () =>
      services.reduce((sum, { pid }) => sum + processorSeconds(pid), store.processorSeconds(others))
  }
}

/** Waits until the cluster has sent all deliveries. */
const settle = async ({ sql }: Cluster): Promise<void> => {
  while ((await sql.query("SELECT FROM delivery_queue LIMIT 1")).rowCount !== 0) {
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

/** One round of requests over all sessions; returns the microseconds of processor time of each request. */
const costOf = async (cluster: Cluster, perSecond: number, seconds: number, tool: Tool): Promise<number> => {
  let session = 0
  const before = cluster.usage()
  const times = await evenly(perSecond, seconds, () => cluster.request(session++, tool))
  await settle(cluster)
  return ((cluster.usage() - before) * 1e6) / times.length
}

/** Follows a session on the replica after that of its requests; calls `onEvent` when an event arrives. */
const follow = async ({ seeded, services }: Cluster, session: number, onEvent: () => void) => {
  const service = services[(session + 1) % services.length]
  const socket = connect(service?.port ?? 0, "127.0.0.1")
  await once(socket, "connect")
  socket.write(
    `GET /v1/agent-sessions/${seeded.sessions[session] ?? ""}/events/stream HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${seeded.agent.secret}\r\n\r\n`
  )
  await once(socket, "data")
  // The first page has the events so far.
  await new Promise((resolve) => setTimeout(resolve, 500))
  socket.setEncoding("utf8").on("data", (text: string) => {
    if (text.includes("\nevent: ") || text.startsWith("event: ")) onEvent()
  })
  return socket
}

/** Runs steps in followed sessions that wait for no event; returns the milliseconds from answers to events. Infinity: every session waits. */
const streamDelays = async (cluster: Cluster, seconds: number): Promise<ReadonlyArray<number>> => {
  const arrivals = new Map<number, (at: number) => void>()
  const sockets = await Promise.all(
    Array.from({ length: FOLLOWED }, (_, session) =>
      follow(cluster, session, () => arrivals.get(session)?.(performance.now()))
    )
  )
  const delays: Array<number> = []
  const free = Array.from({ length: FOLLOWED }, (_, session) => session)
  await evenly(PER_SECOND.streams, seconds, async () => {
    const session = free.shift()
    if (session === undefined) return void delays.push(Number.POSITIVE_INFINITY)
    const arrived = new Promise<number>((resolve) => arrivals.set(session, resolve))
    await cluster.request(session, tools.allowed)
    const answered = performance.now()
    delays.push((await arrived) - answered)
    free.push(session)
  })
  for (const socket of sockets) socket.destroy()
  return delays
}

/** Runs the named parts. */
export const run = async (names: ReadonlyArray<string>): Promise<void> => {
  console.log(`\n${machine()}, PostgreSQL 18 embedded, fsync on`)
  const receiver = await startReceiver()
  const stores: Array<Store> = []
  const clusters: Array<Cluster> = []
  const urls = Array.from({ length: ENDPOINTS }, (_, index) => `http://127.0.0.1:${receiver.port}/${index}`)
  const builds: ReadonlyArray<Cluster["build"]> =
    process.env["BENCH_BEFORE"] === undefined ? ["now"] : ["now", "before"]
  const titleOf = (cluster: Cluster) => `${cluster.build}, ${cluster.services.length} replicas`

  const showCosts = async (title: string, each: number, round: (cluster: Cluster) => Promise<number>) => {
    const costs = await alternate(
      clusters.map((cluster) => () => round(cluster)),
      { warmUp: 1, rounds: ROUNDS }
    )
    console.log(`\n${title}\n`)
    const valuesOf = (build: Cluster["build"], replicas: number) =>
      (costs[clusters.findIndex((one) => one.build === build && one.services.length === replicas)] ?? []).map(
        (cost) => cost / each
      )
    for (const [index, cluster] of clusters.entries())
      console.log(
        line(
          titleOf(cluster),
          (costs[index] ?? []).map((cost) => cost / each),
          "µs"
        )
      )
    for (const build of builds) {
      const ratios = [median(valuesOf(build, 4)) / median(valuesOf(build, 1))]
      const what = `${build}, four by one replica`
      console.log(build === "now" ? atMost(what, ratios, MOST, "times") : line(what, ratios, "times"))
    }
  }

  const parts = {
    steps: () =>
      showCosts(`Processor time of an allowed step, ${PER_SECOND.steps} per second`, 1, (cluster) =>
        costOf(cluster, PER_SECOND.steps, SECONDS, tools.allowed)
      ),
    deliveries: () =>
      showCosts(
        `Processor time of a delivery, with its part of the approval, ${PER_SECOND.deliveries * ENDPOINTS} per second`,
        ENDPOINTS,
        (cluster) => costOf(cluster, PER_SECOND.deliveries, SECONDS, tools.waiting)
      ),
    streams: async () => {
      const delays = clusters.map(() => new Array<number>())
      await alternate(
        clusters.map((cluster, index) => async () => {
          const round = await streamDelays(cluster, SECONDS)
          delays[index]?.push(...round)
          return quantile(round, 0.99)
        }),
        { warmUp: 0, rounds: ROUNDS }
      )
      console.log(`\nFrom the answer of a step to its event on a stream, ${PER_SECOND.streams} per second\n`)
      for (const [index, cluster] of clusters.entries()) {
        for (const q of [0.5, 0.99])
          console.log(line(`${titleOf(cluster)}, p${q * 100}`, [quantile(delays[index] ?? [], q)], "ms"))
      }
    }
  }

  try {
    for (const build of builds) {
      const main = build === "before" ? process.env["BENCH_BEFORE"] : undefined
      // Each build has a server of its own, whose connections suffice for seven replicas.
      const store = await startStore()
      stores.push(store)
      const seeded = await seed(await store.create("seed"), main, { urls, inCooldown: false })
      for (const replicas of REPLICAS) clusters.push(await startCluster(store, build, replicas, seeded))
    }
    // Until then the services' code is not compiled to its end, and the replicas have not shared the shards.
    for (const cluster of clusters) {
      await costOf(cluster, 400, 3 * cluster.services.length, tools.allowed)
      await costOf(cluster, 40, 2 * cluster.services.length, tools.waiting)
    }
    await runParts(parts)(names)
  } finally {
    await stopAll(clusters.flatMap(({ services }) => services.map(({ child }) => child)))
    for (const { sql } of clusters) await sql.end()
    receiver.kill()
    for (const store of stores) await store.dispose()
  }
}
