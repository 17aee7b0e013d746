import { Effect } from "effect"
import { connect, createServer, type Socket } from "node:net"
import { listenOnFreePort } from "./listenOnFreePort.ts"

/** An address that stays the same while the service behind it is chosen, started, killed and started again. */
export interface Front {
  readonly url: string
  /** From now on new connections go to the service at this URL. */
  readonly forwardTo: (url: string) => void
}

/**
 * Listens until the scope closes, and passes connections on. A service then listens on a port of the kernel's choice each time it starts:
 * another process cannot get its port before it, or meanwhile. Connections break if no service is behind it.
 */
export const startFront = Effect.acquireRelease(
  Effect.promise(async () => {
    let target: number | undefined
    const open = new Set<Socket>()
    const server = createServer((client) => {
      const sockets = target === undefined ? [client] : [client, connect(target, "127.0.0.1")]
      const [, service] = sockets
      const end = () => {
        for (const socket of sockets) {
          socket.destroy()
          open.delete(socket)
        }
      }
      for (const socket of sockets) {
        open.add(socket)
        socket.on("error", end).on("close", end)
      }
      if (service === undefined) end()
      else client.pipe(service).pipe(client)
    })
    const port = await listenOnFreePort(server)
    const front: Front = {
      url: `http://127.0.0.1:${port}`,
      forwardTo: (url) => {
        target = Number(new URL(url).port)
      }
    }
    return { front, server, open }
  }),
  ({ open, server }) =>
    Effect.promise(async () => {
      for (const socket of open) socket.destroy()
      await new Promise((done) => server.close(done))
    })
).pipe(Effect.map(({ front }) => front))
