import { Effect, type Scope } from "effect"
import { createServer } from "node:http"
import { listenOnFreePort } from "../../../test/support/listenOnFreePort.ts"

/** A webhook receiver that accepts everything, and counts the arrivals of each event. */
export interface WebhookReceiver {
  readonly url: string
  readonly arrived: ReadonlyMap<string, number>
}

/** Listens until the scope closes. */
export const startWebhookReceiver: Effect.Effect<WebhookReceiver, never, Scope.Scope> = Effect.map(
  Effect.acquireRelease(
    Effect.promise(async () => {
      const arrived = new Map<string, number>()
      const server = createServer((request, response) => {
        const chunks: Array<Buffer> = []
        request.on("data", (chunk: Buffer) => chunks.push(chunk))
        request.on("end", () => {
          const challenge = /"challenge":"([\w-]+)"/.exec(Buffer.concat(chunks).toString())?.[1]
          if (challenge !== undefined) {
            response.writeHead(200, { "content-type": "text/plain" }).end(challenge)
            return
          }
          const event = String(request.headers["x-svc-event-id"])
          arrived.set(event, (arrived.get(event) ?? 0) + 1)
          response.writeHead(204).end()
        })
      })
      return { server, arrived, port: await listenOnFreePort(server) }
    }),
    ({ server }) =>
      Effect.sync(() => {
        server.closeAllConnections()
        server.close()
      })
  ),
  ({ arrived, port }) => ({ arrived, url: `http://127.0.0.1:${port}/hook` })
)
