import type { Server } from "node:net"

/** Makes a server listen on a free loopback port and returns the port. */
export const listenOnFreePort = (server: Server): Promise<number> =>
  new Promise((resolve, reject) => {
    server.once("error", reject).listen(0, "127.0.0.1", () => {
      const address = server.address()
      server.off("error", reject)
      if (typeof address === "object" && address !== null) resolve(address.port)
      else reject(new Error("A server that listens on TCP must have an address"))
    })
  })
