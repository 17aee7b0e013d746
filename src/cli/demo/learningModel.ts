import { Effect, Schema, type Scope } from "effect"
import { createServer } from "node:http"
import { isSubWord, tokenize } from "../../domain/tasks/tokenize.ts"

/** A turn of the prompt: an example. */
interface Turn {
  readonly text: string
  readonly category: string
}

/** A prompt that the model got. */
export interface LearningPrompt {
  readonly instructions: string
  /** In the order of the prompt. */
  readonly examples: ReadonlyArray<Turn>
  readonly text: string
}

const Chat = Schema.fromJsonString(
  Schema.Struct({
    messages: Schema.Array(Schema.Struct({ role: Schema.String, content: Schema.String }))
  })
)
const decodeChat = Schema.decodeUnknownSync(Chat)
const decodeInput = Schema.decodeUnknownSync(Schema.fromJsonString(Schema.Struct({ text: Schema.String })))
const decodeAnswer = Schema.decodeUnknownSync(
  Schema.fromJsonString(Schema.Struct({ category: Schema.String }))
)

const parsePrompt = (body: string): LearningPrompt => {
  const [system, ...turns] = decodeChat(body).messages
  const texts = turns.flatMap(({ content, role }) => (role === "user" ? decodeInput(content).text : []))
  const answers = turns.flatMap(({ content, role }) =>
    role === "assistant" ? decodeAnswer(content).category : []
  )
  return {
    instructions: system?.content ?? "",
    examples: answers.map((category, index) => ({ text: texts[index] ?? "", category })),
    text: texts.at(-1) ?? ""
  }
}

const wordsOf = (text: string) => new Set(tokenize(text).filter((token) => !isSubWord(token)))

/** The share of the words of either text that both have. */
const overlap = (left: string, right: string): number => {
  const [a, b] = [wordsOf(left), wordsOf(right)]
  const shared = [...a].filter((word) => b.has(word)).length
  return shared / (a.size + b.size - shared)
}

/**
 * Starts a chat completions server on loopback, whose model knows nothing. Asked for the category of a text, it answers as the most similar
 * example of its prompt if half of the words are the same, and otherwise "other". So it answers right exactly if its prompt shows a near
 * example.
 */
export const startLearningModel: Effect.Effect<
  { readonly url: string; readonly prompts: ReadonlyArray<LearningPrompt> },
  never,
  Scope.Scope
> = Effect.map(
  Effect.acquireRelease(
    Effect.promise(async () => {
      const prompts: Array<LearningPrompt> = []
      const server = createServer((request, response) => {
        const chunks: Array<Buffer> = []
        request.on("data", (chunk: Buffer) => chunks.push(chunk))
        request.on("end", () => {
          const prompt = parsePrompt(Buffer.concat(chunks).toString())
          prompts.push(prompt)
          const [nearest] = prompt.examples
            .map((example) => ({ ...example, near: overlap(example.text, prompt.text) }))
            .filter(({ near }) => near >= 0.5)
            .toSorted((left, right) => right.near - left.near)
          const content = JSON.stringify({ category: nearest?.category ?? "other" })
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
      return { server, url: `http://127.0.0.1:${address.port}/v1`, prompts }
    }),
    ({ server }) =>
      Effect.promise(async () => {
        server.closeAllConnections()
        await new Promise((done) => server.close(done))
      })
  ),
  ({ prompts, url }) => ({ url, prompts })
)
