import { Effect, type Scope } from "effect"
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import { gunzipSync } from "node:zlib"
import { readRequest, type ReadSpan } from "./validate.ts"
import { listenOnFreePort } from "../listenOnFreePort.ts"

/** How the collector responds to a request it has read. */
export type CollectorResponse =
  | {
      readonly status: number
      readonly headers?: Readonly<Record<string, string>>
      /** JSON, unless it is a string. */
      readonly body?: unknown
    }
  | "never"
  | "hang up"
  /** Writes a custom response, well-formed or not. */
  | ((response: ServerResponse, request: IncomingMessage) => void)

/** A request, parsed by the strict rules. */
export interface Export {
  readonly headers: IncomingMessage["headers"]
  readonly path: string
  readonly isGzipped: boolean
  readonly spans: ReadonlyArray<ReadSpan>
  readonly bytes: number
}

/** A collector on loopback that accepts only exact OTLP/HTTP in JSON. */
export interface Collector {
  readonly url: string
  readonly exports: ReadonlyArray<Export>
  /** Violations of OTLP/HTTP; a test asserts that there are none. */
  readonly faults: ReadonlyArray<string>
  readonly spans: () => ReadonlyArray<ReadSpan>
  /** Completes when this many requests have arrived. */
  readonly arrived: (count: number) => Effect.Effect<void>
  /** Completes when this many spans have arrived, in however many requests, or a request that violates OTLP. */
  readonly spansArrived: (count: number) => Effect.Effect<void>
  /** Sets the responses from now on. */
  readonly answer: (next: CollectorResponse | ReadonlyArray<CollectorResponse>) => void
}

/** The response of the OpenTelemetry Collector. */
export const accepted: CollectorResponse = { status: 200, body: { partialSuccess: {} } }

const isList = (
  answers: CollectorResponse | ReadonlyArray<CollectorResponse>
): answers is ReadonlyArray<CollectorResponse> => Array.isArray(answers)

/** Runs a collector until the scope closes. Responses are used in order; the last one is repeated. */
export const startCollector = (
  answers: CollectorResponse | ReadonlyArray<CollectorResponse> = accepted
): Effect.Effect<Collector, never, Scope.Scope> =>
  Effect.gen(function* () {
    const exports: Array<Export> = []
    const faults: Array<string> = []
    const waiting = new Set<() => void>()
    const listOf = (next: CollectorResponse | ReadonlyArray<CollectorResponse>): Array<CollectorResponse> =>
      isList(next) ? [...next] : [next]
    let script = listOf(answers)

    const read = (request: IncomingMessage, body: Buffer): void => {
      try {
        if (request.method !== "POST") faults.push(`method ${request.method}`)
        if (request.headers["content-type"] !== "application/json") faults.push("content-type")
        const encoding = request.headers["content-encoding"]
        if (encoding !== "gzip" && encoding !== undefined) faults.push("content-encoding")
        if (!/^Countersign\/\d/.test(request.headers["user-agent"] ?? "")) faults.push("user-agent")
        for (const name of ["traceparent", "tracestate", "baggage", "b3", "cookie"]) {
          if (name in request.headers) faults.push(`header ${name}`)
        }
        const isGzipped = encoding === "gzip"
        const json = isGzipped ? gunzipSync(body) : body
        exports.push({
          isGzipped,
          headers: request.headers,
          path: request.url ?? "",
          spans: readRequest(json.toString("utf8")),
          bytes: json.length
        })
      } catch (error) {
        faults.push(String(error))
      }
    }

    const respond = (answer: CollectorResponse, request: IncomingMessage, response: ServerResponse): void => {
      if (answer === "never") return
      if (answer === "hang up") return void request.socket.destroy()
      if (typeof answer === "function") return answer(response, request)
      const { body, headers, status } = answer
      const text = body === undefined ? "" : typeof body === "string" ? body : JSON.stringify(body)
      response.writeHead(status, {
        ...(typeof body === "string" ? {} : { "content-type": "application/json" }),
        ...headers
      })
      response.end(text)
    }

    const server = createServer((request, response) => {
      const chunks: Array<Buffer> = []
      request.on("data", (chunk: Buffer) => chunks.push(chunk))
      request.on("error", () => undefined)
      request.on("end", () => {
        read(request, Buffer.concat(chunks))
        for (const wake of waiting) wake()
        const answer = script.length > 1 ? script.shift() : script[0]
        if (answer !== undefined) respond(answer, request, response)
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
    const spans = () => exports.flatMap((one) => one.spans)
    const holds = (isReached: () => boolean): Effect.Effect<void> =>
      Effect.callback((resume) => {
        const look = () => {
          if (!isReached()) return
          waiting.delete(look)
          resume(Effect.void)
        }
        waiting.add(look)
        look()
        return Effect.sync(() => void waiting.delete(look))
      })
    return {
      url: `http://127.0.0.1:${port}`,
      exports,
      faults,
      spans,
      arrived: (count) => holds(() => exports.length + faults.length >= count),
      spansArrived: (count) => holds(() => faults.length > 0 || spans().length >= count),
      answer: (next) => {
        script = listOf(next)
      }
    }
  })
