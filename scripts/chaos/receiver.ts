import { Effect, type Scope } from "effect"
import { createServer } from "node:http"

/** The arrivals of one event. */
export interface Arrived {
  count: number
  /** Which replica sent the last one, by the address it connected to, and when, in milliseconds on the monotonic clock. */
  by: string
  at: number
}

/** A receiver on all of loopback: the address a request arrives at identifies the replica that sent it. */
export interface Receiver {
  readonly port: number
  readonly arrived: ReadonlyMap<string, Arrived>
  /** Requests waiting for a response, of one replica by its address, or of all. */
  readonly inFlight: (address?: string) => number
}

/** The longest delay of a response, so that faults find requests in flight. */
const HOLD_MILLIS = 200

/** One request in this many is answered 503, so that there are retries as well. */
const FAILS_ONE_IN = 40

/** Listens until the scope closes. `random` is in [0, 1). */
export const startReceiver = (random: () => number): Effect.Effect<Receiver, never, Scope.Scope> =>
  Effect.map(
    Effect.acquireRelease(
      Effect.promise(async () => {
        const arrived = new Map<string, Arrived>()
        const open = new Map<string, number>()
        const add = (by: string, count: number) => void open.set(by, (open.get(by) ?? 0) + count)
        const server = createServer((request, response) => {
          const event = String(request.headers["x-svc-event-id"])
          const known = arrived.get(event)
          const by = request.socket.localAddress ?? ""
          arrived.set(event, { count: (known?.count ?? 0) + 1, by, at: performance.now() })
          add(by, 1)
          response.once("close", () => add(by, -1))
          request.resume()
          const status = random() * FAILS_ONE_IN < 1 ? 503 : 204
          setTimeout(() => response.writeHead(status).end(), random() * HOLD_MILLIS)
        })
        await new Promise<void>((resume) => server.listen(0, "0.0.0.0", resume))
        return { server, arrived, open }
      }),
      ({ server }) =>
        Effect.sync(() => {
          server.closeAllConnections()
          server.close()
        })
    ),
    ({ arrived, open, server }) => {
      const address = server.address()
      return {
        arrived,
        inFlight: (by) =>
          by === undefined ? [...open.values()].reduce((a, b) => a + b, 0) : (open.get(by) ?? 0),
        port: typeof address === "object" && address !== null ? address.port : 0
      }
    }
  )
