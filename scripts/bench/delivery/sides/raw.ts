/** The upper bound: the same requests with the same concurrency, sent from memory without a database. */
import { randomUUID } from "node:crypto"
import { CONCURRENCY, type Job, jobsOf, makePost, ORGANIZATIONS } from "../message.ts"
import { nowMicros, serveSide } from "../protocol.ts"

const post = await makePost(Number(process.env["BENCH_PORT"]))
const queue: Array<Job> = []
let running = 0
let idle = () => {}

const send = async (): Promise<void> => {
  running++
  for (let job = queue.pop(); job !== undefined; job = queue.pop()) await post(job)
  running--
  if (running === 0) idle()
}

let next = 0
serveSide({
  publish: async (events) => {
    const ids = Array.from({ length: events }, () => randomUUID())
    const at = nowMicros()
    for (const id of ids) queue.push(...jobsOf(id, next++ % ORGANIZATIONS))
    for (let free = CONCURRENCY - running; free > 0; free--) {
      send().catch((cause: unknown) => {
        console.error(cause)
        process.exit(1)
      })
    }
    return { ids, at }
  },
  settled: () => (running === 0 ? Promise.resolve() : new Promise((done) => (idle = done))),
  stop: () => Promise.resolve()
})
