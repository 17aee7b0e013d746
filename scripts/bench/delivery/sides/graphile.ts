/**
 * A worker on graphile-worker, configured as its performance page recommends: a local queue, batched completion, one spare connection.
 * https://worker.graphile.org/docs/performance
 */
import { Logger, makeWorkerUtils, run } from "graphile-worker"
import { randomUUID } from "node:crypto"
import pg from "pg"
import { CONCURRENCY, type Job, jobsOf, makePost, ORGANIZATIONS } from "../message.ts"
import { nowMicros, serveSide, pollUntilDone } from "../protocol.ts"

const post = await makePost(Number(process.env["BENCH_PORT"]))
const connectionString = process.env["DATABASE_URL"] ?? ""
const pool = new pg.Pool({ connectionString, max: 2 })
const logger = new Logger(() => () => {})
const utils = await makeWorkerUtils({ connectionString, logger })

const isJob = (payload: unknown): payload is Job =>
  typeof payload === "object" &&
  payload !== null &&
  "event_id" in payload &&
  "path" in payload &&
  "body" in payload

const runner = await run({
  preset: {
    worker: {
      connectionString,
      concurrentJobs: CONCURRENCY,
      maxPoolSize: 25,
      localQueue: { size: 500 },
      completeJobBatchDelay: 0,
      failJobBatchDelay: 0,
      logger
    }
  },
  noHandleSignals: true,
  taskList: {
    webhook: async (payload) => {
      if (!isJob(payload)) throw new Error("unexpected payload")
      await post(payload)
    }
  }
})

let next = 0
serveSide({
  publish: async (events) => {
    const ids = Array.from({ length: events }, () => randomUUID())
    await utils.addJobs(
      ids.flatMap((id) =>
        jobsOf(id, next++ % ORGANIZATIONS).map((payload) => ({ identifier: "webhook", payload }))
      )
    )
    return { ids, at: nowMicros() }
  },
  settled: () =>
    pollUntilDone(async () => {
      const { rowCount } = await pool.query("SELECT 1 FROM graphile_worker._private_jobs LIMIT 1")
      return rowCount !== 0
    }),
  stop: async () => {
    await runner.stop()
    await utils.release()
    await pool.end()
  }
})
