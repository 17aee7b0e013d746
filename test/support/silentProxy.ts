import { Effect, Redacted } from "effect"
import { connect as dial, createServer, type Socket } from "node:net"
import { listenOnFreePort } from "./listenOnFreePort.ts"

/** A TCP proxy in front of PostgreSQL that can lose connections without a word, as a network partition or a load balancer does. */
export interface SilentProxy {
  /** The URL of the database through the proxy. */
  readonly url: Redacted.Redacted
  /** From now on nothing passes the open connections in either direction. They stay open, and new ones work. */
  readonly forgetConnections: () => void
  /** Connections opened so far. */
  readonly opened: () => number
}

/** Starts a proxy in front of the server of `url`. */
export const startSilentProxy = (url: Redacted.Redacted) =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const target = new URL(Redacted.value(url))
      const host = target.searchParams.get("host")
      const port = Number(target.searchParams.get("port") ?? (target.port || "5432"))
      const sockets = new Set<Socket>()
      const pairs: Array<readonly [Socket, Socket]> = []
      const server = createServer((client) => {
        const database = host?.startsWith("/")
          ? dial(`${host}/.s.PGSQL.${port}`)
          : dial(port, host ?? target.hostname)
        for (const [socket, other] of [
          [client, database],
          [database, client]
        ] as const) {
          sockets.add(socket)
          socket.pipe(other)
          socket.on("error", () => other.destroy())
          socket.on("close", () => other.destroy())
        }
        pairs.push([client, database])
      })
      const proxyPort = await listenOnFreePort(server)
      const through = new URL(target)
      // In the query, because the URL of a Unix socket has no authority to set a host and port in.
      through.searchParams.set("host", "127.0.0.1")
      through.searchParams.set("port", String(proxyPort))
      const proxy: SilentProxy = {
        url: Redacted.make(through.href),
        forgetConnections: () => {
          for (const [client, database] of pairs) {
            for (const socket of [client, database]) {
              socket.unpipe()
              socket.removeAllListeners("close")
              // Read and discarded: the sender's TCP sees everything acknowledged.
              socket.resume()
            }
          }
          pairs.length = 0
        },
        opened: () => sockets.size / 2
      }
      return { proxy, server, sockets }
    }),
    ({ server, sockets }) =>
      Effect.promise(async () => {
        for (const socket of sockets) socket.destroy()
        await new Promise((resolve) => server.close(resolve))
      })
  ).pipe(Effect.map(({ proxy }) => proxy))
