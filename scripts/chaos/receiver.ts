import { Effect, type Scope } from "effect"
import { createServer, get } from "node:http"
import { text } from "node:stream/consumers"

/** One request. */
export interface Arrival {
  /** The replica that sent it, by the address it connected to. */
  readonly by: string
  /** In milliseconds on the monotonic clock. */
  readonly at: number
  /** When its connection was free again: after the response, or because the sender was gone. */
  ended: number | undefined
  readonly status: number
  /** When the replica signed it, in Unix seconds. */
  readonly signedAt: number
}

/** The requests of one event. */
export interface Arrived {
  readonly count: number
  readonly requests: ReadonlyArray<Arrival>
  /** The last one. */
  readonly last: Arrival
}

/** A receiver on all of loopback: the address a request arrives at identifies the replica that sent it. */
export interface Receiver {
  readonly port: number
  readonly arrived: ReadonlyMap<string, Arrived>
  /** Requests waiting for a response, of one replica by its address, or of all. */
  readonly inFlight: (address?: string) => number
  /** Completes when every request that was sent before has been read, however busy this process is. */
  readonly caughtUp: Effect.Effect<void>
}

/** The longest delay of a response, so that faults find requests in flight. */
const HOLD_MILLIS = 200

/** One request in this many is answered 503, so that there are retries as well. */
const FAILS_ONE_IN = 40

/** The path of a request that only shows that earlier ones have been read. */
const MARKER = "/marker"

/**
 * The first marker is answered after all earlier connections were accepted, the second after what they had received by then
 * was read. A third covers a connection whose bytes are parsed one turn later.
 */
const MARKERS = 3

/** Listens until the scope closes. `random` is in [0, 1). */
export const startReceiver = (random: () => number): Effect.Effect<Receiver, never, Scope.Scope> =>
  Effect.map(
    Effect.acquireRelease(
      Effect.promise(async () => {
        const arrived = new Map<string, Arrived>()
        const open = new Map<string, number>()
        const add = (by: string, count: number) => void open.set(by, (open.get(by) ?? 0) + count)
        const server = createServer((request, response) => {
          if (request.url === MARKER) {
            response.end()
            return
          }
          const event = String(request.headers["x-svc-event-id"])
          const by = request.socket.localAddress ?? ""
          const status = random() * FAILS_ONE_IN < 1 ? 503 : 204
          const signedAt = Number(request.headers["webhook-timestamp"])
          const last: Arrival = { by, at: performance.now(), ended: undefined, status, signedAt }
          const requests = [...(arrived.get(event)?.requests ?? []), last]
          arrived.set(event, { count: requests.length, requests, last })
          add(by, 1)
          response.once("close", () => {
            last.ended = performance.now()
            add(by, -1)
          })
          request.resume()
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
      const port = typeof address === "object" && address !== null ? address.port : 0
      const marker = Effect.promise(
        () =>
          new Promise((resolve, reject) => {
            get({ host: "127.0.0.1", port, path: MARKER, agent: false }, (response) =>
              resolve(text(response))
            ).once("error", reject)
          })
      )
      return {
        arrived,
        caughtUp: Effect.replicateEffect(marker, MARKERS, { discard: true }),
        inFlight: (by) =>
          by === undefined ? [...open.values()].reduce((a, b) => a + b, 0) : (open.get(by) ?? 0),
        port
      }
    }
  )
