/**
 * Loaded into the service before its own code (`--import`): measures how long the event loop is held, and answers on a
 * port of its own with the longest times since the previous request, in milliseconds, and with `wait`: how long a
 * request that arrives at any time waits for the event loop, 99th percentile, in processor time, which excludes other
 * processes of the machine.
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
let begun = last.wall
let passes: Array<number> = []

/** The time that a request waits for the event loop in 99 of 100 cases: one that arrives during a pass waits for the rest of it. */
const quantileOfWait = (total: number): number => {
  const shareAbove = (wait: number) =>
    passes.reduce((sum, pass) => sum + Math.max(0, pass - wait), 0) / Math.max(total, 1)
  let low = 0
  let high = Math.max(0, ...passes)
  while (high - low > 0.05) {
    const middle = (low + high) / 2
    if (shareAbove(middle) > 0.01) low = middle
    else high = middle
  }
  return high
}

// A timer that is due fires once per pass of the event loop, so what happens between two of its calls is at most one pass.
setInterval(() => {
  const now = { wall: performance.now(), processor: processorMillis() }
  longest = {
    wall: Math.max(longest.wall, now.wall - last.wall),
    processor: Math.max(longest.processor, now.processor - last.processor)
  }
  passes.push(now.processor - last.processor)
  last = now
}, 1).unref()

createServer((_request, response) => {
  const now = performance.now()
  response.end(JSON.stringify({ ...longest, wait: quantileOfWait(now - begun) }))
  longest = { wall: 0, processor: 0 }
  begun = now
  passes = []
})
  .listen(port, "127.0.0.1")
  .unref()
