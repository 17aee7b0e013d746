/**
 * Loaded into the service before its own code (`--import`): measures how long the event loop is held, and answers on a port of its own with
 * the longest times since the last question, in milliseconds.
 */
import { createServer } from "node:http"

/** Main-thread processor time so far, in milliseconds. */
const processorMillis = (): number => {
  const { system, user } = process.threadCpuUsage()
  return (user + system) / 1_000
}

const port = Number(process.env["BENCH_PROBE_PORT"])
let last = { wall: performance.now(), processor: processorMillis() }
let longest = { wall: 0, processor: 0 }

// A timer that is due fires once per pass of the event loop, so what happens between two of its calls is at most one pass.
setInterval(() => {
  const now = { wall: performance.now(), processor: processorMillis() }
  longest = {
    wall: Math.max(longest.wall, now.wall - last.wall),
    processor: Math.max(longest.processor, now.processor - last.processor)
  }
  last = now
}, 1).unref()

createServer((_request, response) => {
  response.end(JSON.stringify(longest))
  longest = { wall: 0, processor: 0 }
})
  .listen(port, "127.0.0.1")
  .unref()
