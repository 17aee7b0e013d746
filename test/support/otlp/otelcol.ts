import { Effect, type Scope } from "effect"
import { type ChildProcess, spawn } from "node:child_process"
import { createServer } from "node:http"
import { connect } from "node:net"
import { gunzipSync } from "node:zlib"
import { freePort } from "../freePort.ts"
import { listenOnFreePort } from "../listenOnFreePort.ts"
import { readRequest, type ReadSpan } from "./validate.ts"

const program = process.env["COUNTERSIGN_TEST_OTELCOL"]

/** Whether an OpenTelemetry Collector is available: any distribution with the OTLP receiver and the OTLP/HTTP exporter. */
export const hasCollector = program !== undefined && program !== ""

if (!hasCollector) {
  process.stderr.write(
    "spans are not sent to an OpenTelemetry Collector: name its program (`otelcol`) in COUNTERSIGN_TEST_OTELCOL\n"
  )
}

/** A Collector that forwards the accepted spans. */
export interface OpenTelemetryCollector {
  readonly url: string
  /** The spans it has forwarded so far. */
  readonly spans: () => ReadonlyArray<ReadSpan>
}

/** Receives forwarded spans as JSON. */
const sink = Effect.gen(function* () {
  const spans: Array<ReadSpan> = []
  const server = createServer((request, response) => {
    const chunks: Array<Buffer> = []
    request.on("data", (chunk: Buffer) => chunks.push(chunk))
    request.on("end", () => {
      const body = Buffer.concat(chunks)
      const json = request.headers["content-encoding"] === "gzip" ? gunzipSync(body) : body
      spans.push(...readRequest(json.toString("utf8")))
      response.writeHead(200, { "content-type": "application/json" }).end("{}")
    })
  })
  const port = yield* Effect.acquireRelease(
    Effect.promise(() => listenOnFreePort(server)),
    () =>
      Effect.sync(() => {
        server.closeAllConnections()
        server.close()
      })
  )
  return { url: `http://127.0.0.1:${port}`, spans: () => spans }
})

const ended = (child: ChildProcess) => child.exitCode !== null || child.signalCode !== null

/** Completes once the port accepts connections; dies with the process's output if it exits first. */
const answers = (port: number, child: ChildProcess, said: () => string) =>
  Effect.callback<boolean>((resume) => {
    const socket = connect(port, "127.0.0.1")
    socket.once("connect", () => {
      socket.destroy()
      resume(Effect.succeed(true))
    })
    socket.once("error", () =>
      resume(ended(child) ? Effect.die(new Error(`The Collector ended: ${said()}`)) : Effect.succeed(false))
    )
  }).pipe(
    Effect.tap((here) => (here ? Effect.void : Effect.sleep("100 millis"))),
    Effect.repeat({ until: (here) => here })
  )

/** Runs the program named by the environment until the scope closes. */
export const openTelemetryCollector: Effect.Effect<OpenTelemetryCollector, never, Scope.Scope> = Effect.gen(
  function* () {
    const { spans, url } = yield* sink
    // The Collector does not report the port that it chose.
    const port = yield* Effect.promise(freePort)
    const configuration = {
      receivers: { otlp: { protocols: { http: { endpoint: `127.0.0.1:${port}` } } } },
      exporters: { otlphttp: { endpoint: url, encoding: "json" } },
      service: {
        telemetry: { metrics: { level: "none" }, logs: { level: "warn" } },
        pipelines: { traces: { receivers: ["otlp"], exporters: ["otlphttp"] } }
      }
    }
    let said = ""
    const child = yield* Effect.acquireRelease(
      Effect.sync(() =>
        spawn(program ?? "", ["--config", `yaml:${JSON.stringify(configuration)}`], {
          stdio: ["ignore", "ignore", "pipe"]
        })
      ),
      (process) =>
        Effect.callback<void>((resume) => {
          if (ended(process)) return resume(Effect.void)
          process.once("exit", () => resume(Effect.void))
          process.kill("SIGKILL")
        })
    )
    child.once("error", (error) => (said += error.message))
    child.stderr.setEncoding("utf8").on("data", (text: string) => (said += text))
    yield* answers(port, child, () => said)
    return { url: `http://127.0.0.1:${port}`, spans }
  }
)
