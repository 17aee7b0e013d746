import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import {
  Context,
  type Duration,
  Effect,
  type FileSystem,
  Layer,
  type Path,
  type Stdio,
  type Terminal
} from "effect"
import { type Etag, type HttpPlatform, HttpServer, type HttpServerError } from "effect/http"
import type { ChildProcessSpawner } from "effect/process"
import type { IpNetwork } from "effect/net"
import { IncomingMessage, Server, ServerResponse } from "node:http"
import { Socket } from "node:net"
import type { Duplex } from "node:stream"
import { uuidV7Hex } from "../../domain/Ids.ts"
import { connectionsCut, connectionsOpen, connectionsRefused } from "../observability/metricDefinitions.ts"
import { AccountAfterListening, type AccountNotChanged, changeAccount } from "./changeAccount.ts"
import {
  addressKey,
  type Client,
  type Connection,
  type ConnectionLimits,
  type ConnectionObserver,
  connectionCuts,
  connectionRefusals,
  Connections,
  defaultConnectionLimits,
  networkKey
} from "../admission/Connections.ts"
import { RequestPacer } from "../admission/RequestPacer.ts"
import { clientAddress } from "./ClientAddress.ts"
import { type Refusal, refuse, refuseConnection } from "./refusals.ts"
import { Stopping } from "./Stopping.ts"
import { makeVerifiedCredentials, VerifiedCredentials } from "../admission/VerifiedCredentials.ts"
import {
  COUNTED_BYTES,
  makeUnsentResponses,
  organizationOf,
  type UnsentResponse,
  UnsentResponses
} from "../admission/UnsentResponses.ts"

/** Limits on connections, and on the time and size of a request before it is routed. */
export interface ListenLimits extends ConnectionLimits {
  /** Reverse proxies whose `X-Forwarded-For` names the client. Default: none. */
  readonly trustedProxies: ReadonlyArray<IpNetwork.IpNetwork>
  /** The longest time for the headers of a request, of the first on a connection too. Default 10 s. */
  readonly headersMillis: number
  /** The longest time for the whole request. Default 30 s. */
  readonly requestMillis: number
  /** How often both limits are checked. Default 5 s. */
  readonly checkMillis: number
  /** Idle time of a kept-alive connection. Longer than usual load balancers', so that they close first. Default 65 s. */
  readonly keepAliveMillis: number
  /** Size of the request line and headers. Default 16 KiB. */
  readonly headerBytes: number
  /** Number of header fields. Default 100. */
  readonly headerFields: number
}

/** The default limits. */
export const defaultListenLimits: ListenLimits = {
  ...defaultConnectionLimits,
  trustedProxies: [],
  headersMillis: 10_000,
  requestMillis: 30_000,
  checkMillis: 5_000,
  keepAliveMillis: 65_000,
  headerBytes: 16 * 1024,
  headerFields: 100
}

/** The body of `/healthz`. */
export const HEALTHY = { status: "alive" }

/** The server of each connection, for its responses. */
const servers = new WeakMap<Socket, GuardedServer>()

/**
 * Sends headers and body in one write. Node does so only if it need not compare the length of the body with `content-length`, which the
 * library asks for; of a body that is passed to `end` as one text, the library has computed `content-length` itself.
 *
 * The part of a large response that the operating system does not accept immediately is counted until the client has
 * read it.
 */
class SingleWriteResponse<Request extends IncomingMessage> extends ServerResponse<Request> {
  /** Ends the counting of the last write. */
  #sent: (() => void) | undefined

  /** While the service stops, each response closes its connection, so that the client connects to another replica. */
  override writeHead(...args: ReadonlyArray<unknown>): this {
    if (servers.get(this.req.socket)?.stopping.isStopping === true) this.setHeader("connection", "close")
    // oxlint-disable-next-line typescript/unbound-method -- it is applied to `this`
    Reflect.apply(super.writeHead, this, args)
    return this
  }

  override end(...args: ReadonlyArray<unknown>): this {
    const [body] = args
    const isText = typeof body === "string"
    if (isText) this.strictContentLength = false
    // oxlint-disable-next-line typescript/unbound-method -- it is applied to `this`
    Reflect.apply(super.end, this, args)
    if ((isText || body instanceof Uint8Array) && body.length >= COUNTED_BYTES) {
      // Bytes without an organization are a static document, which all responses share.
      const isShared = !isText && organizationOf(this) === undefined
      this.#count(isText ? Buffer.byteLength(body) : body.length, isShared)
    }
    return this
  }

  override write(...args: ReadonlyArray<unknown>): boolean {
    // oxlint-disable-next-line typescript/unbound-method -- it is applied to `this`
    const isTaken: unknown = Reflect.apply(super.write, this, args)
    if (isTaken === true) return true
    this.#count(this.writableLength, false)
    return false
  }

  #count(length: number, isShared: boolean): void {
    if (this.writableLength < COUNTED_BYTES) return
    const { socket } = this.req
    const server = servers.get(socket)
    const client = server?.clients.get(socket)?.client
    if (server === undefined || client === undefined) return
    const organization = organizationOf(this)
    const unsent: UnsentResponse = {
      owner: organization ?? client.key,
      bytes: isShared ? 0 : length,
      length,
      limited: organization !== undefined || client.limited,
      cut: (reason) => server.clients.cut(socket, reason)
    }
    const isFirst = this.#sent === undefined
    this.#sent?.()
    this.#sent = server.unsent.add(unsent)
    if (!isFirst) return
    this.on("drain", () => this.#sent?.())
    this.once("close", () => this.#sent?.())
  }
}

/**
 * Node's HTTP server, with problem responses where Node sends a bare status. Until the routes are attached it answers 503, except for
 * `/healthz`; without this, requests between `listen()` and the routes are never answered.
 *
 * Pipelined requests are served one after the other: otherwise one connection could have hundreds of responses in memory at once. Requests
 * of many connections are started over several passes of the event loop: see {@link RequestPacer}.
 */
class GuardedServer extends Server {
  readonly #fields: number
  readonly #pacer: Pacer
  readonly #trustedProxies: ReadonlyArray<IpNetwork.IpNetwork>
  /** The open connections. */
  readonly clients: Connections
  /** The responses that clients have not read. */
  readonly unsent: UnsentResponses["Service"]
  readonly stopping: { readonly isStopping: boolean }
  readonly #credentials: VerifiedCredentials["Service"]

  constructor(limits: ListenLimits, { credentials, observer, pacer, stopping, unsent }: ServerState) {
    super({
      ServerResponse: SingleWriteResponse,
      headersTimeout: limits.headersMillis,
      requestTimeout: limits.requestMillis,
      connectionsCheckingInterval: limits.checkMillis,
      keepAliveTimeout: limits.keepAliveMillis,
      maxHeaderSize: limits.headerBytes,
      // Checked below, to answer with a problem.
      requireHostHeader: false
    })
    this.#fields = limits.headerFields
    this.#trustedProxies = limits.trustedProxies
    this.#credentials = credentials
    this.#pacer = pacer
    this.clients = new Connections(limits, observer)
    this.unsent = unsent
    this.stopping = stopping
    this.timeout = unsent.limits.stalledMillis
    this.on("timeout", (socket) => this.#onIdleTimeout(socket))
    // Node drops header fields beyond its limit silently, so its limit is off; `maxHeaderSize` still bounds them.
    this.maxHeadersCount = 0
    this.on("clientError", (error, socket) => refuseConnection(socket, refusalOf(error)))
    this.on("checkExpectation", (_request, response) => refuse(response, "expectation"))
    this.on("connect", (_request, socket: Duplex) => refuseConnection(socket, "tunnel"))
  }

  /**
   * No protocol upgrade is supported, and an upgraded connection would escape these limits. Node serves such a request as any other if nobody
   * listens for upgrades.
   */
  override listenerCount(...args: Parameters<Server["listenerCount"]>): number {
    return args[0] === "upgrade" ? 0 : super.listenerCount(...args)
  }

  /** Checks a connection and a request before any listener gets it. */
  override emit(event: string, ...args: ReadonlyArray<unknown>): boolean {
    if (event === "connection") {
      const [socket] = args
      if (socket instanceof Socket) {
        if (this.clients.admit(socket) !== undefined) {
          refuseConnection(socket, "connections")
          return true
        }
        servers.set(socket, this)
      }
    }
    if (event === "request" || event === "checkContinue" || event === "checkExpectation") {
      const [request, response] = args
      if (request instanceof IncomingMessage && response instanceof ServerResponse) {
        const serve = this.#server(event, request, response)
        const connection = this.clients.get(request.socket)
        if (connection === undefined) serve()
        else this.#serveInTurn(connection, request, response, serve)
        return true
      }
    }
    return super.emit(event, ...args)
  }

  /** Returns a function that refuses a request or passes it to the listeners. */
  #server(event: string, request: IncomingMessage, response: ServerResponse): () => void {
    const starting = this.listenerCount("request") === 0
    const refusal = starting && !isProbe(request, "healthz") ? "starting" : this.#refusal(request)
    if (refusal !== undefined) return () => refuse(response, refusal)
    if (starting) return () => respondAlive(response)
    request.url = encodeSemicolons(request.url ?? "")
    return () => void super.emit(event, request, response)
  }

  /** Serves a request once the responses before it on its connection have been read. */
  #serveInTurn(
    connection: Connection,
    request: IncomingMessage,
    response: ServerResponse,
    serve: () => void
  ): void {
    const { socket } = request
    const before = connection.response
    if (before === undefined || (before.writableFinished && !connection.isQueueing)) {
      connection.response = response
      this.#start(connection, request, response, serve)
      return
    }
    if (socket.destroyed) return
    if (this.clients.hasTooManyWaiting(connection)) {
      this.clients.cut(socket, "pipelining")
      return
    }
    if (!connection.isQueueing) {
      connection.isQueueing = true
      before.once("finish", () => serveNext(connection))
    }
    connection.waiting.push(() => {
      if (socket.destroyed) return
      connection.response = response
      response.once("finish", () => serveNext(connection))
      this.#start(connection, request, response, serve)
    })
  }

  /** Serves a request when the pacer starts it. Removes it from the queue if its connection closes first. */
  #start(
    { client }: Connection,
    request: IncomingMessage,
    response: ServerResponse,
    serve: () => void
  ): void {
    const cancel = this.#pacer.start(this.#paceKey(client, request), {
      start: serve,
      isClosed: () => request.socket.destroyed,
      refuse: () => refuse(response, "waiting")
    })
    if (cancel !== undefined) response.once("close", cancel)
  }

  /**
   * The key by which a request is paced: the organization of a credential that was verified before, or else the network
   * of the client's address. An unknown credential does not count. Probes wait for no other requests of their address, such as
   * requests from the same proxy or node.
   */
  #paceKey(client: Client, request: IncomingMessage): string {
    const { authorization } = request.headers
    const network = () => networkKey(client.limited ? client.key : this.#addressBehindProxy(client, request))
    if (isProbe(request, "healthz", "readyz", "metrics")) return `probe ${network()}`
    const organization =
      authorization === undefined ? undefined : this.#credentials.organizationOf(authorization)
    return organization ?? network()
  }

  /** The key of the address that a reverse proxy forwards; the proxy's own if it forwards none. */
  #addressBehindProxy({ key }: Client, { headers, socket }: IncomingMessage): string {
    const peer = socket.remoteAddress ?? ""
    const forwarded = headers["x-forwarded-for"]
    const address = clientAddress(
      this.#trustedProxies,
      peer,
      Array.isArray(forwarded) ? undefined : forwarded
    )
    return address === peer ? key : addressKey(address)
  }

  /** Nothing was read or written for a while: the connection is idle, its response is still being computed, or its client does not read. */
  #onIdleTimeout(socket: Socket): void {
    const response = this.clients.get(socket)?.response
    if (response === undefined || response.writableFinished) socket.destroy()
    else if (socket.writableLength > 0) this.clients.cut(socket, "stalled")
  }

  #refusal({ headers, httpVersionMinor, rawHeaders }: IncomingMessage): Refusal | undefined {
    if (rawHeaders.length > 2 * this.#fields) return "headers"
    let hosts = 0
    let authorizations = 0
    for (let index = 0; index < rawHeaders.length; index += 2) {
      const name = rawHeaders[index]
      if (name?.length === 4 && name.toLowerCase() === "host") hosts++
      else if (name?.length === 13 && name.toLowerCase() === "authorization") authorizations++
    }
    if (hosts > 1 || (hosts === 0 && httpVersionMinor !== 0)) return "host"
    if (headers.host !== undefined && !host.test(headers.host)) return "host"
    // Node keeps the first of several, a proxy may check another one.
    if (authorizations > 1) return "authorization"
    const coding = headers["transfer-encoding"]
    return coding === undefined || coding.toLowerCase() === "chunked" ? undefined : "coding"
  }
}

const serveNext = (connection: Connection): void => {
  const serve = connection.waiting.shift()
  if (serve === undefined) connection.isQueueing = false
  else serve()
}

/** Percent-encodes the semicolons of a path: the router takes them for the end of the path, but identifiers may contain them. */
const encodeSemicolons = (url: string): string =>
  url.includes(";") ? url.replace(/^[^?#]*/, (path) => path.replaceAll(";", "%3B")) : url

/**
 * Whether a request is one of these probes. Liveness is answered while the service starts: a long migration or crash
 * recovery must not cause a restart.
 */
const isProbe = ({ method, url = "" }: IncomingMessage, ...probes: ReadonlyArray<string>): boolean =>
  (method === "GET" || method === "HEAD") &&
  probes.some(
    (probe) => url.startsWith(probe, 1) && (url.length === probe.length + 1 || url[probe.length + 1] === "?")
  )

const respondAlive = (response: ServerResponse): void => {
  const body = JSON.stringify(HEALTHY)
  const headers = {
    "content-type": "application/json",
    "content-length": String(Buffer.byteLength(body)),
    "x-request-id": `req_${uuidV7Hex()}`,
    connection: "close"
  }
  response.writeHead(200, headers).end(body)
}

/** A host with an optional port, or nothing (RFC 9112, 3.2). Proxies could interpret anything else as different hosts. */
const host = /^(?:[\w.~!$&'()*+,;=%-]+|\[[\da-fA-F:.]+\])?(?::\d*)?$/

type Pacer = Pick<RequestPacer, "start">

/** State that the server shares with the routes, and its pacer. */
interface ServerState {
  readonly unsent: UnsentResponses["Service"]
  readonly stopping: { readonly isStopping: boolean }
  readonly credentials: VerifiedCredentials["Service"]
  readonly pacer: Pacer
  readonly observer: ConnectionObserver | undefined
}

/** A server with these limits; the caller makes it listen. */
export const makeServer = (
  limits: ListenLimits = defaultListenLimits,
  {
    credentials = makeVerifiedCredentials(),
    observer,
    pacer = new RequestPacer(),
    stopping = { isStopping: false },
    unsent = makeUnsentResponses()
  }: Partial<ServerState> = {}
): GuardedServer => new GuardedServer(limits, { credentials, observer, pacer, stopping, unsent })

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

/** The platform services of handlers. Named here, so that the published types need no package of Node's platform. */
type PlatformServices =
  | ChildProcessSpawner.ChildProcessSpawner
  | Etag.Generator
  | FileSystem.FileSystem
  | HttpPlatform.HttpPlatform
  | Path.Path
  | Stdio.Stdio
  | Terminal.Terminal

/**
 * Node's HTTP server and the platform services of its handlers. Graceful shutdown gives requests in flight `drain` to
 * finish, then closes all connections; if no routes were attached yet, it closes them immediately.
 */
export const layerListen = (options: {
  readonly host: string
  readonly port: number
  readonly drain: Duration.Input
  readonly limits?: Partial<ListenLimits>
}): Layer.Layer<
  HttpServer.HttpServer | PlatformServices,
  HttpServerError.ServeError | AccountNotChanged,
  Stopping | UnsentResponses | VerifiedCredentials
> =>
  Layer.unwrap(
    Effect.map(
      Effect.gen(function* () {
        const observer = observeConnections(yield* Effect.context<never>())
        const state = {
          observer,
          stopping: yield* Stopping,
          unsent: yield* UnsentResponses,
          credentials: yield* VerifiedCredentials
        }
        return makeServer({ ...defaultListenLimits, ...options.limits }, state)
      }),
      (server) =>
        // Built last, so its finalizer runs first: the platform's own finalizer waits for idle clients without limit.
        Layer.effectDiscard(
          Effect.andThen(
            changeAccountIfAny,
            Effect.addFinalizer(() => closeAll(server))
          )
        ).pipe(
          Layer.provideMerge(layerSmallContext),
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

/** Counts into the metrics of the service. */
const observeConnections = (context: Context.Context<never>): ConnectionObserver => {
  // Prometheus sees an increase only from an existing value, so the counters exist before their first increment.
  for (const reason of connectionRefusals) connectionsRefused(reason).updateUnsafe(0, context)
  for (const reason of connectionCuts) connectionsCut(reason).updateUnsafe(0, context)
  return {
    onOpen: (open) => connectionsOpen.updateUnsafe(open, context),
    onRefusal: (reason) => connectionsRefused(reason).updateUnsafe(1, context),
    onCut: (reason) => connectionsCut(reason).updateUnsafe(1, context)
  }
}

/** Only root may open a port below 1024, so the account is changed after that. */
const changeAccountIfAny = Effect.flatMap(AccountAfterListening, (account) =>
  account === undefined ? Effect.void : changeAccount(account)
)

/**
 * Serves requests in a context without the services of this project, which routes take when they are built. An operation copies the context
 * of its request: with all services in it, that took a tenth of the processor time of a small request.
 */
const layerSmallContext = Layer.effect(
  HttpServer.HttpServer,
  Effect.map(HttpServer.HttpServer, (server) =>
    HttpServer.make({
      address: server.address,
      serve: (app, middleware) =>
        Effect.updateContext(
          middleware === undefined ? server.serve(app) : server.serve(app, middleware),
          withoutOwnServices
        )
    })
  )
)

const withoutOwnServices = <R>(context: Context.Context<R>): Context.Context<R> =>
  Context.makeUnsafe(new Map([...context.mapUnsafe].filter(([key]) => !key.startsWith("countersign/"))))

const closeAll = (server: Server) =>
  Effect.callback<void>((resume) => {
    server.close(() => resume(Effect.void))
    server.closeAllConnections()
  })
