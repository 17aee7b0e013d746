/**
 * Table growth: a million deliveries go through the engine while retention removes rows older than ten seconds; prints the size of each
 * table with its indexes along the way. Nothing is sent over sockets, because this measures the database alone. Attempts are partitioned
 * by day and dropped a partition at a time, so their size grows within the day.
 */
import { PgConnection } from "@effect/sql-pg"
import { Effect, type Redacted } from "effect"
import { setTimeout as pause } from "node:timers/promises"
import { machine } from "../measure.ts"
import { startHarness } from "./harness.ts"
import { ENDPOINTS } from "./message.ts"

const DELIVERIES = Number(process.env["BENCH_DELIVERIES"] ?? "1000000")
const SAMPLES = 10
const EVENTS = 2_000
const KEEP_MILLIS = 10_000
/** Time for retention to remove the last deliveries. */
const SETTLE_MILLIS = 20_000

const TABLES = [
  "delivery_queue",
  "deliveries",
  "approval_events",
  "delivery_destinations",
  "delivery_shards",
  "delivery_leases"
]

/** Megabytes of each table with its indexes, and of all partitions of attempts. */
const sizes = (url: Redacted.Redacted) =>
  Effect.runPromise(
    Effect.scoped(
      Effect.gen(function* () {
        const connection = yield* PgConnection.make({ url })
        const { rows } = yield* connection.query(
          `SELECT name, pg_total_relation_size(name::regclass)::float8 / 1048576 AS size
           FROM unnest(ARRAY[${TABLES.map((table) => `'${table}'`).join(",")}]) AS name
           UNION ALL
           SELECT 'attempts', sum(pg_total_relation_size(inhrelid))::float8 / 1048576
           FROM pg_inherits WHERE inhparent = 'delivery_attempts'::regclass`
        )
        return rows.map((row) => Number(row["size"]))
      })
    )
  )

export const growth = async (): Promise<void> => {
  const harness = await startHarness()
  try {
    const runner = await harness.start("ours", {
      BENCH_SEND: "nothing",
      BENCH_KEEP_MILLIS: String(KEEP_MILLIS)
    })
    console.log(`\n${machine()}, PostgreSQL 18 embedded, fsync on`)
    console.log(`${DELIVERIES} deliveries, retained for ${KEEP_MILLIS / 1_000} s; megabytes with indexes\n`)
    console.log(["deliveries", ...TABLES, "attempts"].map((name) => name.padStart(22)).join(""))
    const show = async (done: number) => {
      const all = await sizes(runner.url)
      console.log(
        [String(done), ...all.map((size) => size.toFixed(1))].map((text) => text.padStart(22)).join("")
      )
    }
    const begin = performance.now()
    let next = DELIVERIES / SAMPLES
    for (let done = EVENTS * ENDPOINTS; done <= DELIVERIES; done += EVENTS * ENDPOINTS) {
      await runner.ask({ _tag: "Publish", events: EVENTS })
      await runner.ask({ _tag: "Settle" })
      if (done < next) continue
      await show(done)
      next += DELIVERIES / SAMPLES
    }
    console.log(
      `${Math.round((DELIVERIES / (performance.now() - begin)) * 1_000)} deliveries per second, including publishing`
    )
    await pause(SETTLE_MILLIS)
    await show(DELIVERIES)
  } finally {
    await harness.dispose()
  }
}
