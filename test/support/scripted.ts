import { Effect, type Scope } from "effect"
import { createServer, type IncomingMessage } from "node:http"
import { listenOnFreePort } from "./listenOnFreePort.ts"

/** One response of a scripted server. `never` leaves the request open; `hang up` closes the connection. */
export type ScriptedReply =
  | {
      readonly status: number
      readonly headers?: Readonly<Record<string, string>>
      readonly body?: unknown
      /** Sent instead of a body, as it is. */
      readonly text?: string
    }
  | "never"
  | "hang up"

/** A request that the scripted server received. */
export interface SeenRequest {
  readonly method: string
  readonly url: string
  readonly headers: IncomingMessage["headers"]
  readonly body: string
}

/** Starts an HTTP server on loopback that returns these responses in order, and repeats the last one. */
export const startScriptedServer = (
  answers: ReadonlyArray<ScriptedReply>
): Effect.Effect<
  {
    readonly url: string
    readonly seen: Array<SeenRequest>
    readonly arrived: (count: number) => Promise<void>
  },
  never,
  Scope.Scope
> =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const seen: Array<SeenRequest> = []
      const waiting: Array<{ readonly count: number; readonly done: () => void }> = []
      const server = createServer((request, response) => {
        const chunks: Array<Buffer> = []
        request.on("data", (chunk: Buffer) => chunks.push(chunk))
        request.on("end", () => {
          const answer = answers[Math.min(seen.length, answers.length - 1)] ?? "never"
          seen.push({
            method: request.method ?? "",
            url: request.url ?? "",
            headers: request.headers,
            body: Buffer.concat(chunks).toString()
          })
          for (const { count, done } of waiting) if (seen.length >= count) done()
          if (answer === "never") return
          if (answer === "hang up") {
            request.socket.destroy()
            return
          }
          const problem = answer.status >= 400 ? "application/problem+json" : "application/json"
          response.writeHead(answer.status, {
            ...(answer.body === undefined ? {} : { "content-type": problem }),
            ...answer.headers
          })
          response.end(answer.text ?? (answer.body === undefined ? undefined : JSON.stringify(answer.body)))
        })
      })
      const port = await listenOnFreePort(server)
      const arrived = (count: number) =>
        new Promise<void>((done) => (seen.length >= count ? done() : waiting.push({ count, done })))
      return { server, url: `http://127.0.0.1:${port}`, seen, arrived }
    }),
    ({ server }) =>
      Effect.promise(async () => {
        server.closeAllConnections()
        await new Promise((done) => server.close(done))
      })
  )
