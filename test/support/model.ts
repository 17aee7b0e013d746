import { Effect, Schema, type Scope } from "effect"
import { createServer, type ServerResponse } from "node:http"
import { listenOnFreePort } from "./listenOnFreePort.ts"

/** What a model was asked: the first line of what it was told, and the input's text. */
export interface ModelQuestion {
  readonly instructions: string
  readonly text: string
}

/** A model's answer, and the tokens that it counts for it. */
export interface ModelReply {
  readonly answer: Schema.JsonObject
  readonly input_tokens: number
  readonly output_tokens: number
}

/** A model server that is asked by others, and may be told to keep silent. */
export interface ModelServer {
  readonly url: string
  /** Everything that it was asked so far, in order, answered or not. */
  readonly asked: ReadonlyArray<ModelQuestion>
  /** Answers this many more questions, and leaves those after them without an answer. */
  readonly silentAfter: (count: number) => void
  /** Ends once a question was left without an answer since then. */
  readonly silent: Effect.Effect<void>
}

const decodeChat = Schema.decodeUnknownSync(
  Schema.fromJsonString(Schema.Struct({ messages: Schema.Array(Schema.Struct({ content: Schema.String })) }))
)

const decodeInput = Schema.decodeUnknownSync(Schema.fromJsonString(Schema.Struct({ text: Schema.String })))

/** A real HTTP server on loopback that speaks chat completions. */
export const startModelServer = (
  answer: (asked: ModelQuestion) => ModelReply
): Effect.Effect<ModelServer, never, Scope.Scope> =>
  Effect.map(
    Effect.acquireRelease(
      Effect.promise(async () => {
        const asked: Array<ModelQuestion> = []
        let left = Number.POSITIVE_INFINITY
        let waiting: Array<() => void> = []
        const server = createServer((request, response) => {
          const chunks: Array<Buffer> = []
          request.on("data", (chunk: Buffer) => chunks.push(chunk))
          request.on("end", () => {
            const [told, given] = decodeChat(Buffer.concat(chunks).toString()).messages
            const question: ModelQuestion = {
              instructions: told?.content.split("\n")[0] ?? "",
              ...decodeInput(given?.content ?? "")
            }
            asked.push(question)
            if (left-- > 0) say(response, answer(question))
            else for (const done of waiting.splice(0)) done()
          })
        })
        const port = await listenOnFreePort(server)
        const model: ModelServer = {
          url: `http://127.0.0.1:${port}/v1`,
          asked,
          silentAfter: (count) => {
            left = count
            waiting = []
          },
          silent: Effect.promise(() => new Promise<void>((done) => (left < 0 ? done() : waiting.push(done))))
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

const say = (response: ServerResponse, { answer, input_tokens, output_tokens }: ModelReply): void => {
  response.writeHead(200, { "content-type": "application/json" }).end(
    JSON.stringify({
      choices: [{ finish_reason: "stop", message: { role: "assistant", content: JSON.stringify(answer) } }],
      usage: { prompt_tokens: input_tokens, completion_tokens: output_tokens }
    })
  )
}
