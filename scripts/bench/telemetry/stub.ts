/** Starts and controls the collector stub process. */
import { Schema } from "effect"
import { fork } from "node:child_process"

const StubMessage = Schema.Union([Schema.Struct({ port: Schema.Int }), Schema.Struct({ spans: Schema.Int })])
const decode = Schema.decodeUnknownSync(StubMessage)

/** Starts the stub. */
export const startCollector = async () => {
  const child = fork("scripts/bench/telemetry/collector.ts")
  let spans = 0
  let waiting = { spans: Infinity, done: () => {} }
  const port = await new Promise<number>((resume) => {
    child.on("message", (message) => {
      const received = decode(message)
      if ("port" in received) return resume(received.port)
      spans = received.spans
      if (spans >= waiting.spans) waiting.done()
    })
  })
  return {
    url: `http://127.0.0.1:${port}`,
    spans: () => spans,
    /** Resolves once it has received `count` spans in all. */
    until: (count: number) =>
      spans >= count ? Promise.resolve() : new Promise<void>((done) => (waiting = { spans: count, done })),
    stop: () => child.kill("SIGKILL")
  }
}
