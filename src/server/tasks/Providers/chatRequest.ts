/** The requests of OpenAI's chat completions API. */
import { Redacted, Result } from "effect"
import type { JsonObject } from "../../../domain/tasks/Dataset.ts"
import { renderInstructions } from "../../../domain/tasks/InstructionTemplate.ts"
import type { OpenAiProvider, Provider } from "../../../domain/tasks/Provider.ts"
import type { JsonSchema } from "../../../domain/tasks/Task.ts"
import type { Conversation, ModelRequest } from "./ModelApi.ts"
import { inputTurns, recordedMessages, repairPrompt, systemPrompt } from "./prompt.ts"
import { isStrictSchema } from "./strictSchema.ts"

/** A message of a conversation. */
interface ChatMessage {
  readonly role: "system" | "user" | "assistant"
  readonly content: string
}

/**
 * The messages of a conversation. The input is a message of its own, as JSON, so that the model can distinguish it from the instructions.
 * The examples are earlier turns.
 */
const messagesOf = (system: string, conversation: Conversation): ReadonlyArray<ChatMessage> => {
  const { repair } = conversation
  return [
    { role: "system", content: system },
    ...inputTurns(conversation),
    ...(repair === undefined
      ? []
      : [
          { role: "assistant", content: repair.answer } as const,
          {
            role: "user",
            content: repairPrompt(repair.faults, "Answer again with the corrected JSON object alone.")
          } as const
        ])
  ]
}

/** The system prompt. It repeats the answer schema unless the server has to enforce it: a server may not show the model any other one. */
const chatPrompt = (
  structured_output: OpenAiProvider["structured_output"],
  conversation: Conversation
): string =>
  structured_output === "json_schema" && isStrictSchema(conversation.schema)
    ? systemPrompt(conversation, {
        answerIn: "with one JSON object in the response format, and with nothing else",
        showsSchema: false
      })
    : systemPrompt(conversation)

/**
 * The messages that ask for an answer, without examples, with the values of the input in the instructions. Instructions that would be too
 * long keep their variables. A provider with another API has the messages that one with this API has by default.
 */
export const initialMessages = (
  provider: Provider,
  instructions: string,
  input: JsonObject,
  schema: JsonSchema
): ReadonlyArray<ChatMessage> => {
  const rendered = Result.getOrElse(renderInstructions(instructions, input), () => instructions)
  const conversation = { instructions: rendered, examples: [], input, schema }
  const structured_output = provider.kind === "openai" ? provider.structured_output : "json_schema"
  return messagesOf(chatPrompt(structured_output, conversation), conversation)
}

/** A chat completions request, without streaming. A deployment of Azure OpenAI has its version in the URL and its key in `api-key`. */
export const chatRequest = (
  provider: OpenAiProvider,
  conversation: Conversation,
  api_key: Redacted.Redacted | undefined
): ModelRequest => {
  const { azure_api_version, base_url, model } = provider
  const key = api_key === undefined ? undefined : Redacted.value(api_key)
  const system = chatPrompt(provider.structured_output, conversation)
  return {
    messages: recordedMessages(system, conversation),
    url:
      azure_api_version === null
        ? `${base_url}/chat/completions`
        : `${base_url}/chat/completions?api-version=${encodeURIComponent(azure_api_version)}`,
    headers:
      key === undefined
        ? {}
        : azure_api_version === null
          ? { authorization: `Bearer ${key}` }
          : { "api-key": key },
    body: JSON.stringify({
      model,
      messages: messagesOf(system, conversation),
      stream: false,
      ...sampling(provider),
      ...responseFormat(provider, conversation.schema)
    })
  }
}

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
