/** The collector stub, from outside. */
import { Schema } from "effect"
import { fork } from "node:child_process"

const Told = Schema.Union([Schema.Struct({ port: Schema.Int }), Schema.Struct({ spans: Schema.Int })])
const decode = Schema.decodeUnknownSync(Told)

/** Starts it. */
export const startCollector = async () => {
  const child = fork("scripts/bench/telemetry/collector.ts")
  let spans = 0
  let waiting = { spans: Infinity, done: () => {} }
  const port = await new Promise<number>((resume) => {
    child.on("message", (message) => {
      const told = decode(message)
      if ("port" in told) return resume(told.port)
      spans = told.spans
      if (spans >= waiting.spans) waiting.done()
    })
  })
  return {
    url: `http://127.0.0.1:${port}`,
    spans: () => spans,
    /** Ends when it has had so many. */
    until: (count: number) =>
      spans >= count ? Promise.resolve() : new Promise<void>((done) => (waiting = { spans: count, done })),
    stop: () => child.kill("SIGKILL")
  }
}
