import { Effect, type Scope } from "effect"
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import { gunzipSync } from "node:zlib"
import { listenOnFreePort } from "../listenOnFreePort.ts"

/** A loopback server that records every request. */
export interface Peer {
  readonly url: string
  /** Every request: path, headers, and the decompressed body. */
  readonly received: ReadonlyArray<string>
  /** Completes once a request contains `text`. */
  readonly receives: (text: string) => Effect.Effect<void>
}

/** Answers a request. `echo` is the request as text. */
export type Answering = (request: IncomingMessage, response: ServerResponse, echo: string) => void

/** Starts a recording server that runs until the scope closes. */
export const peer = (answer: Answering): Effect.Effect<Peer, never, Scope.Scope> =>
  Effect.gen(function* () {
    const received: Array<string> = []
    const waiting = new Set<() => void>()
    const server = createServer((request, response) => {
      const chunks: Array<Buffer> = []
      request.on("data", (chunk: Buffer) => chunks.push(chunk))
      request.on("end", () => {
        const bytes = Buffer.concat(chunks)
        const body = request.headers["content-encoding"] === "gzip" ? gunzipSync(bytes) : bytes
        const echo = [request.url, ...request.rawHeaders, body.toString("latin1")].join("\n")
        received.push(echo)
        for (const look of waiting) look()
        answer(request, response, echo)
      })
    })
    const port = yield* Effect.acquireRelease(
      Effect.promise(() => listenOnFreePort(server)),
      () =>
        Effect.sync(() => {
          server.close()
          server.closeAllConnections()
        })
    )
    return {
      url: `http://127.0.0.1:${port}`,
      received,
      receives: (text) =>
        Effect.callback((resume) => {
          const look = () => {
            if (!received.some((one) => one.includes(text))) return
            waiting.delete(look)
            resume(Effect.void)
          }
          waiting.add(look)
          look()
          return Effect.sync(() => void waiting.delete(look))
        })
    }
  })

/** A webhook receiver that answers 500 with an echo of the request if its path contains `broken`. */
export const receiver = peer((request, response, echo) => {
  if (request.url?.includes("broken") !== true) response.writeHead(204).end()
  else response.writeHead(500, "Broken", { "x-echo": String(request.headers["x-svc-signature"]) }).end(echo)
})

/** A collector whose responses contain the authorization header. It answers 401 until `accept` runs, then 200 with a message. */
export const echoingCollector = Effect.gen(function* () {
  let accepts = false
  const made = yield* peer((request, response) => {
    const said = `scheme or token does not match: ${request.headers.authorization}`
    if (accepts) {
      response
        .writeHead(200, { "content-type": "application/json" })
        .end(JSON.stringify({ partialSuccess: { rejectedSpans: 0, errorMessage: said } }))
    } else response.writeHead(401, said, { "x-echo": said }).end(said)
  })
  return { ...made, accept: Effect.sync(() => void (accepts = true)) }
})

/** A model provider whose error responses contain the key. */
export const echoingProvider = peer((request, response) => {
  response
    .writeHead(401, { "content-type": "application/json" })
    .end(JSON.stringify({ error: { message: `Incorrect API key: ${request.headers.authorization}` } }))
})
