import { Effect, Schema, type Scope } from "effect"
import { createServer, type ServerResponse } from "node:http"
import { listenOnFreePort } from "./listenOnFreePort.ts"

/** A request to the model: the first line of the system message, and the text of the input. */
export interface ModelQuestion {
  readonly instructions: string
  readonly text: string
}

/** The model's answer and its usage. */
export interface ModelReply {
  readonly answer: Schema.JsonObject
  readonly input_tokens: number
  readonly output_tokens: number
}

/** A model server for other processes, which can stop responding on demand. */
export interface ModelServer {
  readonly url: string
  /** All requests so far, in order, answered or not. */
  readonly asked: ReadonlyArray<ModelQuestion>
  /** Answers this many more requests and leaves later ones unanswered. */
  readonly silentAfter: (count: number) => void
  /** Completes when a request is left unanswered. */
  readonly silent: Effect.Effect<void>
}

const decodeChat = Schema.decodeUnknownSync(
  Schema.fromJsonString(Schema.Struct({ messages: Schema.Array(Schema.Struct({ content: Schema.String })) }))
)

const decodeInput = Schema.decodeUnknownSync(Schema.fromJsonString(Schema.Struct({ text: Schema.String })))

/** Starts an HTTP server on loopback with the chat completions API. */
export const startModelServer = (
  answer: (asked: ModelQuestion) => ModelReply
): Effect.Effect<ModelServer, never, Scope.Scope> =>
  Effect.map(
    Effect.acquireRelease(
      Effect.promise(async () => {
        const asked: Array<ModelQuestion> = []
        let remaining = Number.POSITIVE_INFINITY
        let listeners: Array<() => void> = []
        const server = createServer((request, response) => {
          const chunks: Array<Buffer> = []
          request.on("data", (chunk: Buffer) => chunks.push(chunk))
          request.on("end", () => {
            const { messages } = decodeChat(Buffer.concat(chunks).toString())
            // Between them are examples.
            const [system, user] = [messages[0], messages.at(-1)]
            const question: ModelQuestion = {
              instructions: system?.content.split("\n")[0] ?? "",
              ...decodeInput(user?.content ?? "")
            }
            asked.push(question)
            if (remaining-- > 0) respond(response, answer(question))
            else for (const notify of listeners.splice(0)) notify()
          })
        })
        const port = await listenOnFreePort(server)
        const model: ModelServer = {
          url: `http://127.0.0.1:${port}/v1`,
          asked,
          silentAfter: (count) => {
            remaining = count
            listeners = []
          },
          silent: Effect.promise(
            () => new Promise<void>((done) => (remaining < 0 ? done() : listeners.push(done)))
          )
        }
        return { server, model }
      }),
      ({ server }) =>
        Effect.promise(async () => {
          server.closeAllConnections()
          await new Promise((done) => server.close(done))
        })
    ),
    ({ model }) => model
  )

const respond = (response: ServerResponse, { answer, input_tokens, output_tokens }: ModelReply): void => {
  response.writeHead(200, { "content-type": "application/json" }).end(
    JSON.stringify({
      choices: [{ finish_reason: "stop", message: { role: "assistant", content: JSON.stringify(answer) } }],
      usage: { prompt_tokens: input_tokens, completion_tokens: output_tokens }
    })
  )
}
