import { Effect } from "effect"
import { createServer, connect as dial, type Socket } from "node:net"
import { listenOnFreePort } from "./listenOnFreePort.ts"

/** A proxy in front of a service that breaks connections, as networks do. */
export interface BreakingProxy {
  /** Its base URL: `http://127.0.0.1:PORT`. */
  readonly url: string
  /** How many connections it broke. */
  readonly breaks: () => number
}

/** A seeded random number generator for [0, 1) (mulberry32). */
export const seededRandom = (seed: number) => (): number => {
  seed = (seed + 0x6d2b79f5) | 0
  let mixed = Math.imul(seed ^ (seed >>> 15), 1 | seed)
  mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
  return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
}

/**
 * Proxies to a loopback port and breaks `breaks` connections, each after up to `bytes` bytes from the service, also in
 * the middle of a line or of a character. After that it is an ordinary proxy.
 */
export const breakingProxy = (options: {
  readonly port: number
  readonly breaks: number
  readonly bytes: number
  readonly seed: number
}) =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const random = seededRandom(options.seed)
      const open = new Set<Socket>()
      let broken = 0
      const server = createServer((client) => {
        const service = dial(options.port, "127.0.0.1")
        let left = Math.ceil(random() * options.bytes)
        const cut = () => {
          client.destroy()
          service.destroy()
          open.delete(client)
        }
        open.add(client)
        client.on("close", cut).on("error", cut)
        service.on("close", cut).on("error", cut)
        client.pipe(service)
        service.on("data", (data: Buffer) => {
          if (broken >= options.breaks || data.length <= left) {
            left -= data.length
            client.write(data)
            return
          }
          broken++
          client.write(data.subarray(0, left), cut)
          service.pause()
        })
      })
      const port = await listenOnFreePort(server)
      const proxy: BreakingProxy = {
        url: `http://127.0.0.1:${port}`,
        breaks: () => broken
      }
      return { proxy, server, open }
    }),
    ({ open, server }) =>
      Effect.promise(async () => {
        for (const socket of open) socket.destroy()
        await new Promise((resolve) => server.close(resolve))
      })
  ).pipe(Effect.map(({ proxy }) => proxy))
