import { once } from "node:events"
import { connect, createServer, type Socket } from "node:net"
import path from "node:path"

/** A database that is reached by TCP. */
export interface ReachedByTcp {
  readonly url: string
  readonly close: () => void
}

/**
 * Makes a database whose URL names a socket reachable by TCP on this machine: the socket is closed to the account of an image. A URL with
 * an address stays as it is.
 */
export const reachByTcp = async (databaseUrl: string): Promise<ReachedByTcp> => {
  const url = new URL(databaseUrl)
  const directory = url.searchParams.get("host")
  if (directory === null) return { url: url.href, close: () => {} }
  const port = url.searchParams.get("port") ?? (url.port === "" ? "5432" : url.port)
  const sockets = new Set<Socket>()
  const proxy = createServer((client) => {
    const server = connect(path.join(directory, `.s.PGSQL.${port}`))
    for (const [one, other] of [
      [client, server],
      [server, client]
    ] as const) {
      sockets.add(one)
      one.on("close", () => sockets.delete(one)).on("error", () => other.destroy())
      one.pipe(other)
    }
  }).listen(0, "127.0.0.1")
  await once(proxy, "listening")
  const address = proxy.address()
  if (address === null || typeof address === "string") throw new Error("the proxy has no port")
  for (const name of ["host", "port"]) url.searchParams.delete(name)
  url.searchParams.set("sslmode", "disable")
  url.hostname = "127.0.0.1"
  url.port = String(address.port)
  const close = (): void => {
    proxy.close()
    for (const socket of sockets) socket.destroy()
  }
  return { url: url.href, close }
}
