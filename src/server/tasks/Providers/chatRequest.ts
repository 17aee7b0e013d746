/** The requests of OpenAI's chat completions API. */
import type { JsonObject } from "../../../domain/tasks/Dataset.ts"
import type { OpenAiProvider } from "../../../domain/tasks/Provider.ts"
import type { SchemaFault } from "../../../domain/tasks/CompiledSchema.ts"
import type { JsonSchema } from "../../../domain/tasks/Task.ts"
import { isStrictSchema } from "./strictSchema.ts"

/** A message of a conversation. */
export interface ChatMessage {
  readonly role: "system" | "user" | "assistant"
  readonly content: string
}

/** Faults in the message that asks the model to repair its answer. */
const MAX_REPORTED_FAULTS = 20

/**
 * The first messages of a run. The input is a message of its own, as JSON, so that the model can distinguish it from the instructions. The
 * examples, given nearest first, are earlier turns, the nearest last: models give the most weight to what they read last.
 */
export const initialMessages = (
  instructions: string,
  examples: ReadonlyArray<{ readonly input: JsonObject; readonly answer: JsonObject }>,
  input: JsonObject,
  schema: JsonSchema
): ReadonlyArray<ChatMessage> => [
  {
    role: "system",
    content: [
      instructions,
      examples.length === 0
        ? "The user's message is the input, as JSON. Answer with one JSON object that fits this JSON Schema, and with nothing else:"
        : "Each message of the user is an input, as JSON. The answers to the earlier ones are right. Answer the last one, with one JSON object that fits this JSON Schema, and with nothing else:",
      JSON.stringify(schema)
    ]
      .filter((part) => part !== "")
      .join("\n\n")
  },
  ...examples.toReversed().flatMap((example): ReadonlyArray<ChatMessage> => [
    { role: "user", content: JSON.stringify(example.input) },
    { role: "assistant", content: JSON.stringify(example.answer) }
  ]),
  { role: "user", content: JSON.stringify(input) }
]

/** The messages that ask the model, once, to repair an answer that does not match the answer schema. */
export const repairMessages = (
  answer: string,
  faults: ReadonlyArray<SchemaFault>
): ReadonlyArray<ChatMessage> => [
  { role: "assistant", content: answer },
  {
    role: "user",
    content: [
      "That answer does not fit the JSON Schema:",
      ...faults.slice(0, MAX_REPORTED_FAULTS).map(({ detail, pointer }) => `- ${pointer}: ${detail}`),
      "Answer again with the corrected JSON object alone."
    ].join("\n")
  }
]

/** The body of a chat completions request, without streaming. */
export const chatBody = (
  provider: OpenAiProvider,
  messages: ReadonlyArray<ChatMessage>,
  schema: JsonSchema
): string =>
  JSON.stringify({
    model: provider.model,
    messages,
    stream: false,
    ...sampling(provider),
    ...responseFormat(provider, schema)
  })

/** The sampling parameters that the provider's settings name. */
const sampling = ({ max_tokens, model, reasoning_effort, seed, temperature, top_p }: OpenAiProvider) => ({
  ...(temperature === null ? {} : { temperature }),
  ...(top_p === null ? {} : { top_p }),
  ...(seed === null ? {} : { seed }),
  ...(reasoning_effort === null ? {} : { reasoning_effort }),
  ...(max_tokens === null
    ? {}
    : reasoning_effort !== null || REASONING_MODEL.test(model)
      ? { max_completion_tokens: max_tokens }
      : { max_tokens })
})

/** OpenAI's models that refuse `max_tokens`, also by their names at a router. Other servers know `max_tokens` only. */
const REASONING_MODEL = /^(?:openai\/)?(?:o\d|gpt-5)/

const responseFormat = ({ structured_output }: OpenAiProvider, schema: JsonSchema) => {
  switch (structured_output) {
    case "json_schema":
      return {
        response_format: {
          type: "json_schema",
          json_schema: { name: "answer", schema, strict: isStrictSchema(schema) }
        }
      }
    case "json_object":
      return { response_format: { type: "json_object" } }
    case "none":
      return {}
  }
}
