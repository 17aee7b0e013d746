import { Effect } from "effect"
import { once } from "node:events"
import { connect, createServer, type Socket } from "node:net"
import { listenOnFreePort } from "./listenOnFreePort.ts"

/**
 * A loopback port that refuses connections. No other process can listen on it until the scope closes, because an open connection has it as
 * its own port.
 */
export const closedPort = Effect.acquireRelease(
  Effect.promise(async () => {
    const accepted: Array<Socket> = []
    const server = createServer((socket) => accepted.push(socket))
    const socket = connect(await listenOnFreePort(server), "127.0.0.1")
    await once(socket, "connect")
    return { server, socket, accepted, port: socket.localPort ?? 0 }
  }),
  ({ accepted, server, socket }) =>
    Effect.promise(async () => {
      for (const end of [socket, ...accepted]) end.destroy()
      await new Promise((done) => server.close(done))
    })
).pipe(Effect.map(({ port }) => port))
