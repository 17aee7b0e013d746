import { Effect, Schema, type Scope } from "effect"
import { isSubWord, tokenize } from "../../domain/tasks/tokenize.ts"
import { type PromptMessage, startModelServer } from "./modelServer.ts"

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

const decodeInput = Schema.decodeUnknownSync(Schema.fromJsonString(Schema.Struct({ text: Schema.String })))
const decodeAnswer = Schema.decodeUnknownSync(
  Schema.fromJsonString(Schema.Struct({ category: Schema.String }))
)

const parsePrompt = ([system, ...turns]: ReadonlyArray<PromptMessage>): LearningPrompt => {
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
> = Effect.suspend(() => {
  const prompts: Array<LearningPrompt> = []
  const server = startModelServer((messages) => {
    const prompt = parsePrompt(messages)
    prompts.push(prompt)
    const [nearest] = prompt.examples
      .map((example) => ({ ...example, near: overlap(example.text, prompt.text) }))
      .filter(({ near }) => near >= 0.5)
      .toSorted((left, right) => right.near - left.near)
    return { category: nearest?.category ?? "other" }
  })
  return Effect.map(server, ({ url }) => ({ url, prompts }))
})
