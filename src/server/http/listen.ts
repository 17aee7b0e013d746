import { NodeHttpServer } from "@effect/platform-node"
import { type Duration, Effect, Layer } from "effect"
import type { HttpServer, HttpServerError } from "effect/http"
import { IncomingMessage, Server, ServerResponse } from "node:http"
import type { Duplex } from "node:stream"
import { uuidV7Hex } from "../../domain/Ids.ts"
import { type Refusal, refuse, refuseConnection } from "./refusals.ts"

/** How slow and how large a request may be before it is one of ours. */
export interface ListenLimits {
  /** The longest a client may take for the headers of a request, a first one included; default 10 s. */
  readonly headersMillis: number
  /** The longest it may take for the whole of it; default 30 s. */
  readonly requestMillis: number
  /** How often both are looked at; default every 5 s. */
  readonly checkMillis: number
  /** Longer than the idle time of usual load balancers, so that they close first and never send into a closing socket; default 65 s. */
  readonly keepAliveMillis: number
  /** Request line and headers together; default 16 KiB. */
  readonly headerBytes: number
  /** Header fields; default 100. */
  readonly headerFields: number
}

/** The defaults of each. */
export const defaultListenLimits: ListenLimits = {
  headersMillis: 10_000,
  requestMillis: 30_000,
  checkMillis: 5_000,
  keepAliveMillis: 65_000,
  headerBytes: 16 * 1024,
  headerFields: 100
}

/** The body of `/healthz`. */
export const HEALTHY = { status: "alive" }

/**
 * Node's server, which answers with problems where Node answers with a bare status, and from the moment it listens until the
 * routes are there with 503, save `/healthz`: without this, requests that come in between are never answered at all.
 */
class GuardedServer extends Server {
  readonly #fields: number

  constructor(limits: ListenLimits) {
    super({
      headersTimeout: limits.headersMillis,
      requestTimeout: limits.requestMillis,
      connectionsCheckingInterval: limits.checkMillis,
      keepAliveTimeout: limits.keepAliveMillis,
      maxHeaderSize: limits.headerBytes,
      // Told apart below, with a problem.
      requireHostHeader: false,
      // Nothing here is upgraded to; a connection that left HTTP would be under none of these limits.
      shouldUpgradeCallback: () => false
    })
    this.#fields = limits.headerFields
    // Beyond Node's own limit fields are dropped in silence. The bytes are limited as it is.
    this.maxHeadersCount = 0
    this.on("clientError", (error, socket) => refuseConnection(socket, refusalOf(error)))
    this.on("connect", (_request, socket: Duplex) => refuseConnection(socket, "tunnel"))
    this.on("checkExpectation", (_request, response) => refuse(response, "expectation"))
  }

  /** In front of whoever listens for requests, however many there are. */
  override emit(event: string, ...args: ReadonlyArray<unknown>): boolean {
    if (event === "request" || event === "checkContinue") {
      const [request, response] = args
      if (request instanceof IncomingMessage && response instanceof ServerResponse) {
        const starting = this.listenerCount("request") === 0
        const refusal = starting && !asksForHealth(request) ? "starting" : this.#refusal(request)
        if (refusal !== undefined) refuse(response, refusal)
        else if (starting) answerAlive(response)
        if (refusal !== undefined || starting) return true
      }
    }
    return super.emit(event, ...args)
  }

  #refusal({ headers, httpVersionMinor, rawHeaders }: IncomingMessage): Refusal | undefined {
    if (rawHeaders.length > 2 * this.#fields) return "headers"
    let hosts = 0
    for (let index = 0; index < rawHeaders.length; index += 2) {
      const name = rawHeaders[index]
      if (name?.length === 4 && name.toLowerCase() === "host") hosts++
    }
    if (hosts > 1 || (hosts === 0 && httpVersionMinor !== 0)) return "host"
    if (headers.host !== undefined && !host.test(headers.host)) return "host"
    const coding = headers["transfer-encoding"]
    return coding === undefined || coding.toLowerCase() === "chunked" ? undefined : "coding"
  }
}

/** A start that takes long, since it migrates or recovers, is no reason to restart: the process is alive. */
const asksForHealth = ({ method, url }: IncomingMessage): boolean =>
  (method === "GET" || method === "HEAD") && /^\/healthz(?:\?|$)/.test(url ?? "")

const answerAlive = (response: ServerResponse): void => {
  const body = JSON.stringify(HEALTHY)
  const headers = {
    "content-type": "application/json",
    "content-length": String(Buffer.byteLength(body)),
    "x-request-id": `req_${uuidV7Hex()}`,
    connection: "close"
  }
  response.writeHead(200, headers).end(body)
}

/** A host and a port, or nothing (RFC 9112, 3.2): what is none, another in the chain of servers may take for another host. */
const host = /^(?:[\w.~!$&'()*+,;=%-]+|\[[\da-fA-F:.]+\])?(?::\d*)?$/

/** A server that is not listening yet. */
export const makeServer = (limits: ListenLimits = defaultListenLimits): Server => new GuardedServer(limits)

const refusalOf = (error: Error): Refusal => {
  switch ("code" in error ? error.code : undefined) {
    case "HPE_HEADER_OVERFLOW":
      return "headers"
    case "HPE_CHUNK_EXTENSIONS_OVERFLOW":
      return "chunks"
    case "ERR_HTTP_REQUEST_TIMEOUT":
      return "slow"
    default:
      return "malformed"
  }
}

/**
 * The HTTP server of Node, and what its handlers need of the platform. At a stop requests in flight have `drain` to finish; whoever is
 * still connected then, or where there were no routes yet, is cut off.
 */
export const layerListen = (options: {
  readonly host: string
  readonly port: number
  readonly drain: Duration.Input
}): Layer.Layer<
  HttpServer.HttpServer | Layer.Success<typeof NodeHttpServer.layerHttpServices>,
  HttpServerError.ServeError
> =>
  Layer.unwrap(
    Effect.map(
      Effect.sync(() => makeServer()),
      (server) =>
        // On top, so it runs first: the platform's own end waits without limit for clients that say nothing.
        Layer.effectDiscard(Effect.addFinalizer(() => cutOff(server))).pipe(
          Layer.provideMerge(
            NodeHttpServer.layer(() => server, {
              host: options.host,
              port: options.port,
              gracefulShutdownTimeout: options.drain
            })
          )
        )
    )
  )

const cutOff = (server: Server) =>
  Effect.callback<void>((resume) => {
    server.close(() => resume(Effect.void))
    server.closeAllConnections()
  })
