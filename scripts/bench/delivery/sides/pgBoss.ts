/**
 * A worker on pg-boss, configured for throughput as its documentation of `work()` recommends: several workers; each fetches a batch, runs
 * it concurrently, completes job by job, fetches again while batches are full, and is woken by LISTEN/NOTIFY.
 * https://pgboss.io/api/workers
 */
import { randomUUID } from "node:crypto"
import pg from "pg"
import { PgBoss } from "pg-boss"
import { CONCURRENCY, type Job, jobsOf, makePost, ORGANIZATIONS } from "../message.ts"
import { nowMicros, serveSide, pollUntilDone } from "../protocol.ts"

const QUEUE = "webhook"
const WORKERS = 4

const post = await makePost(Number(process.env["BENCH_PORT"]))
const connectionString = process.env["DATABASE_URL"] ?? ""
const boss = new PgBoss({ connectionString, max: 25, useListenNotify: true })
boss.on("error", console.error)
await boss.start()
await boss.createQueue(QUEUE, { notify: true })
const pool = new pg.Pool({ connectionString, max: 2 })

await boss.work<Job>(
  QUEUE,
  {
    localConcurrency: WORKERS,
    batchSize: CONCURRENCY / WORKERS,
    burstWhenBatchFull: true,
    pollingIntervalSeconds: 0.5,
    perJobResults: true
  },
  async (jobs) =>
    Promise.all(
      jobs.map(async ({ data, id }) => {
        try {
          await post(data)
          return { id, status: "completed" as const }
        } catch {
          return { id, status: "failed" as const }
        }
      })
    )
)

let next = 0
serveSide({
  publish: async (events) => {
    const ids = Array.from({ length: events }, () => randomUUID())
    await boss.insert(
      QUEUE,
      ids.flatMap((id) => jobsOf(id, next++ % ORGANIZATIONS).map((data) => ({ data })))
    )
    return { ids, at: nowMicros() }
  },
  settled: () =>
    pollUntilDone(async () => {
      const { rowCount } = await pool.query(
        `SELECT 1 FROM pgboss.job WHERE name = '${QUEUE}' AND state < 'completed' LIMIT 1`
      )
      return rowCount !== 0
    }),
  stop: async () => {
    await boss.stop()
    await pool.end()
  }
})
