import { Effect, type Scope } from "effect"
import { type ChildProcess, spawn } from "node:child_process"
import { createServer } from "node:http"
import { connect } from "node:net"
import { gunzipSync } from "node:zlib"
import { listenOnFreePort } from "../listenOnFreePort.ts"
import { readRequest, type ReadSpan } from "./validate.ts"

const program = process.env["COUNTERSIGN_TEST_OTELCOL"]

/** Whether there is an OpenTelemetry Collector to try: any distribution with the OTLP receiver and the OTLP/HTTP exporter. */
export const hasCollector = program !== undefined && program !== ""

if (!hasCollector) {
  process.stderr.write(
    "spans are not sent to an OpenTelemetry Collector: name its program (`otelcol`) in COUNTERSIGN_TEST_OTELCOL\n"
  )
}

/** A Collector that hands on what it takes in. */
export interface OpenTelemetryCollector {
  readonly url: string
  /** What it has handed on so far. */
  readonly spans: () => ReadonlyArray<ReadSpan>
}

/** A port that was free a moment ago: the Collector cannot be asked which one it took. */
const freePort = Effect.gen(function* () {
  const server = createServer()
  const port = yield* Effect.promise(() => listenOnFreePort(server))
  yield* Effect.callback<void>((resume) => void server.close(() => resume(Effect.void)))
  return port
})

/** Where the Collector hands spans on to, as JSON. */
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

/** Ends once somebody listens at the port; dies with what the process said where it ends before. */
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

/** Runs the program that the environment names until the scope closes. */
export const openTelemetryCollector: Effect.Effect<OpenTelemetryCollector, never, Scope.Scope> = Effect.gen(
  function* () {
    const { spans, url } = yield* sink
    const port = yield* freePort
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
