import { Effect, Schema, type Scope } from "effect"
import { createServer } from "node:http"

/** A message of a prompt. */
export interface PromptMessage {
  readonly role: string
  readonly content: string
}

const decodeChat = Schema.decodeUnknownSync(
  Schema.fromJsonString(
    Schema.Struct({
      messages: Schema.Array(Schema.Struct({ role: Schema.String, content: Schema.String }))
    })
  )
)

/** Starts a chat completions server on loopback, whose model is a function of the prompt. */
export const startModelServer = (
  answer: (messages: ReadonlyArray<PromptMessage>) => object
): Effect.Effect<{ readonly url: string }, never, Scope.Scope> =>
  Effect.map(
    Effect.acquireRelease(
      Effect.promise(async () => {
        const server = createServer((request, response) => {
          const chunks: Array<Buffer> = []
          request.on("data", (chunk: Buffer) => chunks.push(chunk))
          request.on("end", () => {
            const content = JSON.stringify(answer(decodeChat(Buffer.concat(chunks).toString()).messages))
            response.writeHead(200, { "content-type": "application/json" }).end(
              JSON.stringify({
                choices: [{ finish_reason: "stop", message: { role: "assistant", content } }],
                usage: { prompt_tokens: 100, completion_tokens: 5 }
              })
            )
          })
        })
        await new Promise<void>((resolve, reject) =>
          server.once("error", reject).listen(0, "127.0.0.1", () => resolve())
        )
        const address = server.address()
        if (typeof address !== "object" || address === null) throw new Error("a server on TCP has an address")
        return { server, url: `http://127.0.0.1:${address.port}/v1` }
      }),
      ({ server }) =>
        Effect.promise(async () => {
          server.closeAllConnections()
          await new Promise((done) => server.close(done))
        })
    ),
    ({ url }) => ({ url })
  )
