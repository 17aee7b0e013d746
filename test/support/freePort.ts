import { randomInt } from "node:crypto"
import { once } from "node:events"
import { createServer } from "node:net"

/**
 * Returns a loopback port that no other process uses, below those that Linux gives out for port 0: another test's server could get one of
 * those before the caller's program listens, or while it restarts.
 */
export const freePort = async (): Promise<number> => {
  for (;;) {
    const port = randomInt(20_000, 32_000)
    const server = createServer().listen(port, "127.0.0.1")
    try {
      await once(server, "listening")
    } catch {
      continue
    }
    await new Promise((resolve) => server.close(resolve))
    return port
  }
}
