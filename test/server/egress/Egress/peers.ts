import { Context, Deferred, Effect, Layer, Result, type Scope } from "effect"
import type { NetAddress } from "effect/net"
import * as Net from "node:net"
import * as Tls from "node:tls"
import { parseAllowedNetworks, parseNetworks } from "../../../../src/domain/network/PublicAddress.ts"
import { Egress, type EgressRequest } from "../../../../src/server/egress/Egress.ts"
import type { Identity } from "../../../support/ca.ts"

/** A raw TCP or TLS server, which can also send malformed responses. */
export interface Peer {
  readonly port: number
  /** Connections accepted so far; zero for a canary. */
  readonly connections: () => number
  /** Requests as received, byte for byte. */
  readonly requests: ReadonlyArray<string>
  /** Completes when one of its connections has closed, on either side. */
  readonly closed: Effect.Effect<void>
}

/** Handles each complete request; `count` starts at 0. */
export type Behaviour = (socket: Net.Socket, count: number) => void

export const ok = (body = "", headers: ReadonlyArray<string> = []): string =>
  [`HTTP/1.1 200 OK`, `content-length: ${Buffer.byteLength(body)}`, ...headers, "", body].join("\r\n")

export const answers =
  (text: string): Behaviour =>
  (socket) =>
    void socket.write(text)

/** Writes the text immediately, then the piece repeatedly until the other side closes. */
export const drip =
  (first: string, piece: string, everyMillis: number): Behaviour =>
  (socket) => {
    socket.write(first)
    const timer = setInterval(() => socket.write(piece), everyMillis)
    socket.on("close", () => clearInterval(timer))
  }

/** Writes as fast as the other side reads. */
export const flood =
  (first: string, piece: string): Behaviour =>
  (socket) => {
    socket.write(first)
    const block = piece.repeat(Math.ceil(16_384 / piece.length))
    const pour = (): void => {
      while (!socket.destroyed && socket.write(block)) continue
      if (!socket.destroyed) socket.once("drain", pour)
    }
    pour()
  }

const headEnd = "\r\n\r\n"

/** Length of the request at the front of the text; undefined while it is incomplete. */
const requestLength = (text: string): number | undefined => {
  const end = text.indexOf(headEnd)
  if (end < 0) return undefined
  const length = end + headEnd.length + Number(/content-length: (\d+)/i.exec(text.slice(0, end))?.[1] ?? 0)
  return text.length < length ? undefined : length
}

/** Runs a peer until the scope closes. */
export const peer = (
  behave: Behaviour,
  options: {
    readonly host?: string
    readonly port?: number
    readonly tls?: Tls.TlsOptions & Identity
    readonly onConnection?: (socket: Net.Socket) => void
  } = {}
): Effect.Effect<Peer, never, Scope.Scope> =>
  Effect.gen(function* () {
    const closed = yield* Deferred.make<void>()
    const sockets = new Set<Net.Socket>()
    const requests: Array<string> = []
    let connections = 0

    const onSecure = (socket: Net.Socket): void => {
      let text = ""
      options.onConnection?.(socket)
      socket.on("error", () => socket.destroy())
      socket.on("close", () => Deferred.doneUnsafe(closed, Effect.void))
      socket.on("data", (chunk) => {
        text += chunk.toString("latin1")
        for (let length = requestLength(text); length !== undefined; length = requestLength(text)) {
          requests.push(text.slice(0, length))
          text = text.slice(length)
          behave(socket, requests.length - 1)
        }
      })
    }
    const onSocket = (socket: Net.Socket): void => {
      connections++
      sockets.add(socket)
      socket.on("close", () => sockets.delete(socket))
      socket.on("error", () => socket.destroy())
    }

    const server = yield* Effect.acquireRelease(
      Effect.callback<Net.Server>((resume) => {
        const server =
          options.tls === undefined ? Net.createServer(onSecure) : Tls.createServer(options.tls, onSecure)
        server.on("connection", onSocket)
        server.on("tlsClientError", () => undefined)
        server.listen(options.port ?? 0, options.host ?? "127.0.0.1", () => resume(Effect.succeed(server)))
      }),
      (server) =>
        Effect.sync(() => {
          for (const socket of sockets) socket.destroy()
          server.close()
        })
    )
    const address = server.address()
    return {
      port: typeof address === "object" && address !== null ? address.port : 0,
      connections: () => connections,
      requests,
      closed: Deferred.await(closed)
    }
  })

/** An egress with one `allow` list, by default the IPv4 loopback network. */
export const egress = (
  options: {
    readonly allow?: string
    readonly deny?: string
    readonly http?: boolean
    readonly dns?: NetAddress.InetAddress
    readonly own?: string
    readonly certificates?: ReadonlyArray<string>
  } = {}
) =>
  Effect.map(
    Layer.build(
      Egress.layer({
        dnsServers: options.dns === undefined ? [] : [options.dns],
        allow: Result.getOrThrow(parseAllowedNetworks(options.allow ?? "127.0.0.0/8")),
        deny: Result.getOrThrow(parseNetworks(options.deny ?? "")),
        allowHttp: options.http ?? true,
        ownHost: options.own,
        certificates: options.certificates ?? []
      })
    ),
    (context) => Context.get(context, Egress)
  )

/** A request with short limits. */
export const post = (url: string, more: Partial<EgressRequest> = {}): EgressRequest => ({
  organization: "org_1",
  pool: "nep_1",
  url,
  method: "POST",
  headers: { "content-type": "application/json" },
  body: Buffer.from(`{"hello":"world"}`),
  timeout: "3 seconds",
  maxResponseBytes: 16 * 1024,
  ...more
})
