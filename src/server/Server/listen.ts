import { NodeHttpServer } from "@effect/platform-node"
import type { Duration, Layer } from "effect"
import type { HttpServer, HttpServerError } from "effect/http"
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http"

/** The longest a client may take for the headers of a request, and for the whole of it: slow ones must not hold sockets. */
const HEADERS_TIMEOUT_MS = 10_000
const REQUEST_TIMEOUT_MS = 30_000
/** Longer than the idle time of usual load balancers, so that they close first and never send into a closing socket. */
const KEEP_ALIVE_TIMEOUT_MS = 65_000
/** Request line and headers together. */
const MAX_HEADER_BYTES = 16 * 1024

/**
 * A server that answers 503 from the moment it listens until the routes are there: without this, requests that come in between
 * are never answered at all.
 */
const makeServer = (): Server => {
  const server = createServer({
    headersTimeout: HEADERS_TIMEOUT_MS,
    requestTimeout: REQUEST_TIMEOUT_MS,
    connectionsCheckingInterval: 5_000,
    keepAliveTimeout: KEEP_ALIVE_TIMEOUT_MS,
    maxHeaderSize: MAX_HEADER_BYTES
  })
  const early = (_request: IncomingMessage, response: ServerResponse) => {
    response.writeHead(503, { "retry-after": "1", "content-type": "application/problem+json" }).end(
      JSON.stringify({
        type: "urn:problem-type:countersign:UNAVAILABLE",
        title: "The store is out of reach",
        status: 503,
        detail: "The service is starting",
        code: "UNAVAILABLE"
      })
    )
  }
  server.on("request", early)
  server.on("newListener", (event, listener) => {
    if (event === "request" && listener !== early) server.off("request", early)
  })
  return server
}

/** The HTTP server of Node, and what its handlers need of the platform. At a stop requests in flight have `drain` to finish. */
export const layerListen = (options: {
  readonly host: string
  readonly port: number
  readonly drain: Duration.Input
}): Layer.Layer<
  HttpServer.HttpServer | Layer.Success<typeof NodeHttpServer.layerHttpServices>,
  HttpServerError.ServeError
> =>
  NodeHttpServer.layer(makeServer, {
    host: options.host,
    port: options.port,
    gracefulShutdownTimeout: options.drain
  })
