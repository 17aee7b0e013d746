import { Effect, type Scope } from "effect"
import { createServer } from "node:http"
import { listenOnFreePort } from "./listenOnFreePort.ts"

/** A step as a model is asked about it. */
export interface AskedStep {
  readonly tool: string
  readonly action_class: string
  readonly arguments?: unknown
  readonly session?: { readonly metadata?: unknown; readonly last_steps?: ReadonlyArray<unknown> }
  readonly [member: string]: unknown
}

/** A request that the model received. */
export interface AskedModel {
  readonly system: string
  /** The messages between the system prompt and the step: the examples. */
  readonly examples: ReadonlyArray<{ readonly role: string; readonly content: string }>
  readonly step: AskedStep
  /** The members of the request. */
  readonly members: ReadonlyArray<string>
}

/** What a scripted model answers: a decision with its reason, a status of failure, or nothing. */
export type ModelReply = { readonly decision: string; readonly reason?: string } | number | "never"

interface ChatRequest {
  readonly messages: ReadonlyArray<{ readonly role: string; readonly content: string }>
}

/** Starts a server with the API of a model, which answers each step by a function. Each answer takes 110 tokens. */
export const startReviewerModel = (
  answer: (step: AskedStep, count: number) => ModelReply
): Effect.Effect<
  {
    readonly url: string
    readonly seen: Array<AskedModel>
    readonly arrived: (count: number) => Promise<void>
  },
  never,
  Scope.Scope
> =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const seen: Array<AskedModel> = []
      const waiting: Array<{ readonly count: number; readonly done: () => void }> = []
      const server = createServer((request, response) => {
        const chunks: Array<Buffer> = []
        request.on("data", (chunk: Buffer) => chunks.push(chunk))
        request.on("end", () => {
          const body: ChatRequest = JSON.parse(Buffer.concat(chunks).toString())
          const [first, ...others] = body.messages
          const step: AskedStep = JSON.parse(others.at(-1)?.content ?? "{}")
          seen.push({
            system: first?.content ?? "",
            examples: others.slice(0, -1),
            step,
            members: Object.keys(body)
          })
          const reply = answer(step, seen.length)
          for (const { count, done } of waiting) if (seen.length >= count) done()
          if (reply === "never") return
          if (typeof reply === "number") {
            response.writeHead(reply).end()
            return
          }
          response.writeHead(200, { "content-type": "application/json" })
          response.end(
            JSON.stringify({
              choices: [
                {
                  finish_reason: "stop",
                  message: {
                    role: "assistant",
                    content: JSON.stringify({ reason: "As before.", ...reply })
                  }
                }
              ],
              usage: { prompt_tokens: 100, completion_tokens: 10, total_tokens: 110 }
            })
          )
        })
      })
      const port = await listenOnFreePort(server)
      const arrived = (count: number) =>
        new Promise<void>((done) => (seen.length >= count ? done() : waiting.push({ count, done })))
      return { server, url: `http://127.0.0.1:${port}/v1`, seen, arrived }
    }),
    ({ server }) =>
      Effect.promise(async () => {
        server.closeAllConnections()
        await new Promise((done) => server.close(done))
      })
  )
