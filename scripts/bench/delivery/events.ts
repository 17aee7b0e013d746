/**
 * The whole way of an event through the service: from a request of the API to the receipt by one webhook endpoint, for test events,
 * approvals that are asked for, and decisions. Open loop at a steady rate, so that each delivery is sent and recorded nearly alone; then a
 * closed loop at the highest rate. Processor time is that of the service and of PostgreSQL, everything included, until the last result is
 * recorded.
 */
import { Effect, ManagedRuntime, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { setTimeout as pause } from "node:timers/promises"
import { Pool } from "undici"
import * as Database from "../../../src/server/store/Database.ts"
import { atMost, line, machine, median, processorSeconds, quantile } from "../measure.ts"
import { startService, startStore } from "../service.ts"
import { latencyLine, startReceiver } from "./harness.ts"
import { nowMicros } from "./protocol.ts"

const PER_SECOND = 100
const ROUND_MILLIS = 2_000
const CALLERS = 16
const ROUNDS = 3

/** A request that causes one event: when it was due and answered, and how the delivery of its event is found. */
interface Caused {
  readonly due: number
  readonly answered: number
  /** The delivery's id or label. */
  readonly key: string
}

/** Figures of one kind of event, over all measured rounds. */
const makeFigures = () => ({
  fromRequest: new Array<number>(),
  fromAnswer: new Array<number>(),
  steady: { service: new Array<number>(), store: new Array<number>() },
  peak: { service: new Array<number>(), store: new Array<number>(), perSecond: new Array<number>() }
})

const Id = Schema.Struct({ id: Schema.String })
const decodeTest = Schema.decodeUnknownSync(Schema.fromJsonString(Id))
const decodeEndpoint = Schema.decodeUnknownSync(Schema.fromJsonString(Schema.Struct({ endpoint: Id })))
const decodeSession = Schema.decodeUnknownSync(
  Schema.fromJsonString(Schema.Struct({ session_id: Schema.String }))
)
const decodeStep = Schema.decodeUnknownSync(
  Schema.fromJsonString(Schema.Struct({ approval_id: Schema.String }))
)

export const events = async (): Promise<void> => {
  const store = await startStore()
  const receiver = await startReceiver()
  const url = await store.database("bench_events")
  const database = ManagedRuntime.make(Database.layer({ url, maxConnections: 1 }))
  const service = await startService(url, {
    // Deliveries to this machine are refused in production.
    NODE_ENV: "development",
    COUNTERSIGN_EGRESS_ALLOW: "127.0.0.1/32",
    COUNTERSIGN_EGRESS_HTTP: "true",
    ...(process.env["BENCH_NODE_OPTIONS"] === undefined
      ? {}
      : { NODE_OPTIONS: process.env["BENCH_NODE_OPTIONS"] })
  })
  const pool = new Pool(`http://127.0.0.1:${service.port}`, { connections: 64 })

  const call = async (method: "POST" | "PUT", path: string, body?: unknown): Promise<string> => {
    const answer = await pool.request({
      method,
      path,
      headers: { authorization: `Bearer ${service.key}`, "content-type": "application/json" },
      ...(body === undefined ? {} : { body: JSON.stringify(body) })
    })
    const text = await answer.body.text()
    if (answer.statusCode >= 300) throw new Error(`${path} got status ${answer.statusCode}: ${text}`)
    return text
  }

  /** The keys of the deliveries of events, by the event's id. */
  const deliveryKeys = () =>
    database.runPromise(
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const rows = yield* sql<{
          readonly event_id: string
          readonly delivery_id: string
          readonly label: string
        }>`
          SELECT event_id, delivery_id, label
          FROM deliveries
        `
        return new Map(rows.map((row) => [row.event_id, row]))
      })
    )
  const hasQueued = database.runPromise.bind(
    database,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      return (yield* sql`SELECT 1 AS found FROM delivery_queue LIMIT 1`).length > 0
    })
  )

  try {
    await call("PUT", "/v1/approval-rules", {
      rules: [{ tool: "pay", effect: "require_approval", self_approval: true }]
    })
    const {
      endpoint: { id: endpoint }
    } = decodeEndpoint(
      await call("POST", "/v1/notification-endpoints", { url: `http://127.0.0.1:${receiver.port}/0/0` })
    )
    const { session_id: session } = decodeSession(await call("POST", "/v1/agent-sessions", { metadata: {} }))
    const pending: Array<string> = []
    let steps = 0

    const kinds = {
      "test event": async () =>
        decodeTest(await call("POST", `/v1/notification-endpoints/${endpoint}/test`)).id,
      "approval asked": async () => {
        const { approval_id } = decodeStep(
          await call("POST", `/v1/agent-sessions/${session}/steps`, {
            step_id: `step ${++steps}`,
            tool: "pay",
            action_class: "write",
            arguments: { amount: 12, to: "somebody@example.com" }
          })
        )
        pending.push(approval_id)
        return `approval.requested ${approval_id}`
      },
      decision: async () => {
        const approval_id = pending.pop()
        if (approval_id === undefined) throw new Error("no approval is pending")
        await call("POST", `/v1/agent-approvals/${approval_id}/decide`, { decision: "approve" })
        return `approval.approved ${approval_id}`
      }
    }

    /** Runs a load until the last of its deliveries is recorded. */
    const settle = async (load: (caused: Array<Caused>) => Promise<void>) => {
      const list: Array<Caused> = []
      await receiver.take()
      const count = receiver.count()
      const before = [processorSeconds(service.pid), store.processorSeconds()]
      const begin = performance.now()
      await load(list)
      const seconds = (performance.now() - begin) / 1_000
      await receiver.until(count + list.length)
      while (await hasQueued()) await pause(20)
      const after = [processorSeconds(service.pid), store.processorSeconds()]
      const each = (index: number) => (((after[index] ?? 0) - (before[index] ?? 0)) * 1e6) / list.length
      return { list, service: each(0), store: each(1), perSecond: list.length / seconds }
    }

    const caused = async (cause: () => Promise<string>, due: number): Promise<Caused> => {
      const key = await cause()
      return { due, answered: nowMicros(), key }
    }

    const steady = (cause: () => Promise<string>, limit: number) => async (list: Array<Caused>) => {
      const under: Array<Promise<unknown>> = []
      const begin = nowMicros()
      for (let sent = 0; sent < limit; sent++) {
        const due = begin + (sent * 1e6) / PER_SECOND
        const early = (due - nowMicros()) / 1_000
        if (early > 0.5) await pause(early)
        under.push(caused(cause, Math.max(due, begin)).then((one) => list.push(one)))
      }
      await Promise.all(under)
    }

    const peak = (cause: () => Promise<string>, limit: number) => async (list: Array<Caused>) => {
      let left = limit
      await Promise.all(
        Array.from({ length: CALLERS }, async () => {
          while (left-- > 0) list.push(await caused(cause, nowMicros()))
        })
      )
    }

    const each = (PER_SECOND * ROUND_MILLIS) / 1_000
    const figures = new Map(Object.keys(kinds).map((name) => [name, makeFigures()]))
    for (let round = -1; round < ROUNDS; round++) {
      for (const [name, cause] of Object.entries(kinds)) {
        const figure = figures.get(name)
        const run = await settle(steady(cause, each))
        const keys = await deliveryKeys()
        const arrived = new Map<string, number>()
        for (const [key, at] of await receiver.take()) {
          const row = keys.get(key.split(" ")[1] ?? "")
          if (row === undefined) continue
          arrived.set(row.label, at)
          arrived.set(row.delivery_id, at)
        }
        const most = await settle(peak(cause, each))
        if (round < 0 || figure === undefined) continue
        for (const { answered, due, key } of run.list) {
          const at = arrived.get(key)
          if (at === undefined) throw new Error(`${key} did not arrive`)
          figure.fromRequest.push((at - due) / 1_000)
          figure.fromAnswer.push((at - answered) / 1_000)
        }
        figure.steady.service.push(run.service)
        figure.steady.store.push(run.store)
        figure.peak.service.push(most.service)
        figure.peak.store.push(most.store)
        figure.peak.perSecond.push(most.perSecond)
      }
    }

    console.log(`\n${machine()}, PostgreSQL 18 embedded, fsync on; one endpoint, ${ROUNDS} rounds`)
    for (const [name, { fromAnswer, fromRequest, peak, steady }] of figures) {
      const sum = ({ service, store }: { readonly service: Array<number>; readonly store: Array<number> }) =>
        service.map((value, index) => value + (store[index] ?? Number.NaN))
      console.log(`\n${name}, ${PER_SECOND} a second`)
      console.log(latencyLine("from the request to the receipt", fromRequest))
      console.log(latencyLine("from the answer to the receipt", fromAnswer))
      console.log(line("processor time, service", steady.service, "µs"))
      console.log(line("processor time, PostgreSQL", steady.store, "µs"))
      console.log(line("processor time, both", sum(steady), "µs"))
      console.log(`${name}, ${CALLERS} callers`)
      console.log(line("rate", peak.perSecond, "per second"))
      console.log(line("processor time, service", peak.service, "µs"))
      console.log(line("processor time, PostgreSQL", peak.store, "µs"))
      const limit = name === "test event" ? 1_500 : name === "approval asked" ? 2_000 : undefined
      console.log(
        limit === undefined
          ? line("processor time, both", sum(peak), "µs")
          : atMost("processor time, both", sum(peak), limit, "µs")
      )
      if (name === "decision") console.log(atMost("answer to receipt, p50", [median(fromAnswer)], 10, "ms"))
      else {
        console.log(atMost("request to receipt, p50", [median(fromRequest)], 5.4, "ms"))
        console.log(atMost("request to receipt, p99", [quantile(fromRequest, 0.99)], 27, "ms"))
      }
    }
    service.child.kill("SIGTERM")
    await service.ended
  } finally {
    service.child.kill("SIGKILL")
    receiver.kill()
    await pool.destroy()
    await database.dispose()
    await store.dispose()
  }
}
