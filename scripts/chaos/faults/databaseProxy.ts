import { Effect, Redacted, type Scope } from "effect"
import { connect as dial, createServer, type Socket } from "node:net"
import { listenOnFreePort } from "../../../test/support/listenOnFreePort.ts"

/** A TCP proxy in front of the database servers, as operators put one in front of a primary and its standby. */
export interface DatabaseProxy {
  /** The database's URL through the proxy. */
  readonly url: Redacted.Redacted
  /** Sends new connections to the server that listens on this socket. Undefined: refuses them. */
  readonly setTarget: (socket: string | undefined) => void
  /** Closes every connection. */
  readonly closeConnections: () => void
  /** From now on nothing passes the open connections, which stay open, as after a network partition. */
  readonly forgetConnections: () => void
}

/** Starts a proxy without a target. `user` and `database` are for its URL. */
export const startDatabaseProxy = (
  user: string,
  database: string
): Effect.Effect<DatabaseProxy, never, Scope.Scope> =>
  Effect.map(
    Effect.acquireRelease(
      Effect.promise(async () => {
        let target: string | undefined
        const sockets = new Set<Socket>()
        const close = () => {
          for (const socket of sockets) socket.destroy()
        }
        const server = createServer((client) => {
          if (target === undefined) {
            client.destroy()
            return
          }
          const upstream = dial(target)
          for (const [socket, other] of [
            [client, upstream],
            [upstream, client]
          ] as const) {
            sockets.add(socket)
            socket.setNoDelay(true)
            socket.pipe(other)
            socket.on("error", () => other.destroy())
            socket.on("close", () => {
              sockets.delete(socket)
              other.destroy()
            })
          }
        })
        const port = await listenOnFreePort(server)
        const proxy: DatabaseProxy = {
          url: Redacted.make(`postgres://${user}@127.0.0.1:${port}/${database}?sslmode=disable`),
          setTarget: (socket) => {
            target = socket
          },
          closeConnections: close,
          forgetConnections: () => {
            for (const socket of sockets) {
              socket.unpipe()
              socket.removeAllListeners("close")
              // Read and discarded: the sender's TCP sees everything acknowledged.
              socket.resume()
            }
          }
        }
        return { proxy, server, close }
      }),
      ({ close, server }) =>
        Effect.promise(async () => {
          close()
          await new Promise((resolve) => server.close(resolve))
        })
    ),
    ({ proxy }) => proxy
  )
